//go:build unix

package preset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/fault"
)

// Whatever is wrong with a preset's files is said, with the file's path; the
// others are listed all the same.
func TestADamagedPresetIsRefused(t *testing.T) {
	write := func(file, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	turn := func(file, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			b, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(b, []byte(from)) {
				t.Fatalf("%s holds no %s (%v)", file, from, err)
			}
			write(file, string(bytes.Replace(b, []byte(from), []byte(to), 1)))(t, dir)
		}
	}
	flip := func(file string, at int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			b[at] ^= 1
			write(file, string(b))(t, dir)
		}
	}
	gone := func(file string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, string)
		want   fault.Code
		file   string
	}{
		"no preset.json":           {gone(presetFile), fault.PresetFileCorrupt, presetFile},
		"an empty preset.json":     {write(presetFile, ""), fault.PresetFileCorrupt, presetFile},
		"preset.json of a newer":   {turn(presetFile, `"version": 1`, `"version": 9`), fault.PresetFormatUnknown, presetFile},
		"an unknown field":         {turn(presetFile, `"version"`, `"more": 1, "version"`), fault.PresetFileCorrupt, presetFile},
		"another name":             {turn(presetFile, `"name": "tiny"`, `"name": "huge"`), fault.PresetFileCorrupt, presetFile},
		"a recipe that cannot be":  {turn(presetFile, `"chunk": 8`, `"chunk": 80`), fault.PresetFileCorrupt, presetFile},
		"a revision cut short":     {turn(presetFile, `"revision": "abab`, `"revision": "`), fault.PresetFileCorrupt, presetFile},
		"another shape":            {turn(presetFile, `"layers": 5`, `"layers": 6`), fault.PresetFileCorrupt, probeFile},
		"no manifest":              {gone(manifestFile), fault.PresetFileCorrupt, manifestFile},
		"a changed manifest":       {turn(manifestFile, `"digest":"1"`, `"digest":"3"`), fault.PresetFileCorrupt, manifestFile},
		"no probe":                 {gone(probeFile), fault.PresetFileCorrupt, probeFile},
		"an empty probe":           {write(probeFile, ""), fault.PresetFileCorrupt, probeFile},
		"a probe changed in a row": {flip(probeFile, headSize+5), fault.PresetFileCorrupt, probeFile},
		"another revision": {
			turn(presetFile, `"revision": "ab`, `"revision": "cd`), fault.PresetRevisionMismatched, manifestFile,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			s := opened(t, data)
			added(t, s, "other")
			added(t, s, "tiny")
			c.damage(t, filepath.Join(data, "presets", "tiny"))
			_, err := s.Load(t.Context(), "tiny")
			if !errors.Is(err, c.want) || filepath.Base(fault.From(err).Attr("path")) != c.file {
				t.Errorf("got %v, want %s of %s", err, c.want, c.file)
			}
			if all, err := s.List(); err != nil || len(all) != 2 || all[0].Preset == nil {
				t.Errorf("listed are %v (%v)", all, err)
			}
			if _, err := s.Remove("tiny"); err != nil { // as the hint says
				t.Error(err)
			}
		})
	}
}

// A probe of the same model that is not the one that the preset was written
// with is refused, though it is whole.
func TestAProbeOfAnotherPresetIsRefused(t *testing.T) {
	data := t.TempDir()
	s := opened(t, data)
	added(t, s, "tiny")
	f := new(buffer)
	of := facts()
	of.Recipe.Chunk = 4
	w, err := NewProbeWriter(f, of)
	for part := 0; part < 3 && err == nil; part++ {
		err = w.Part(ends(part), drift(part))
	}
	if err == nil {
		err = w.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "presets", "tiny", probeFile), f.b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), "tiny"); !errors.Is(err, fault.PresetFileCorrupt) {
		t.Errorf("got %v", err)
	}
}
