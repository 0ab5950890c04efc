//go:build unix

package preset

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/process"
)

func described(name string) Preset {
	return Preset{
		Version: formatVersion, Name: name, Files: []string{"/models/tiny.gguf"}, Recipe: facts().Recipe,
		Model: Shape{Architecture: "llama", Layers: 5, Width: width}, Tokenizer: Tokenizer{Tokens: vocabulary},
	}
}

func opened(t *testing.T, data string) *Store {
	t.Helper()
	s, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drafted begins a preset and finishes its probe.
func drafted(t *testing.T, s *Store, name string) *Draft {
	t.Helper()
	d, err := s.Begin(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Discard)
	w, err := d.Probe(facts())
	for part := 0; part < 3 && err == nil; part++ {
		err = w.Part(ends(part), drift(part))
	}
	if err == nil {
		err = w.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func added(t *testing.T, s *Store, name string) *Preset {
	t.Helper()
	p, err := drafted(t, s, name).Commit(described(name), tiny())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// within lists what is in a folder, without the folder.
func within(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestAPresetIsKeptAsItWasMade(t *testing.T) {
	data := t.TempDir()
	kept := added(t, opened(t, data), "tiny")
	s := opened(t, data)
	l, err := s.Load(t.Context(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Revision != facts().Revision || l.ProbeDigest != kept.ProbeDigest || len(l.Manifest.Tensors) != 2 || l.Recipe != facts().Recipe {
		t.Errorf("read as %+v", l)
	}
	if r, err := l.Probe.Reference([2]int{2, 4}); err != nil || !slices.Equal(r.Passages[1].Out, ends(1)[1]) {
		t.Errorf("its reference is %+v (%v)", r, err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0].Name != "tiny" || all[0].Preset == nil {
		t.Errorf("listed are %+v (%v)", all, err)
	}
	if want := []string{"presets", "presets/tiny", "presets/tiny/manifest.json", "presets/tiny/preset.json", "presets/tiny/probe.bin"}; !slices.Equal(within(t, data), want) {
		t.Errorf("there are %v", within(t, data))
	}
	if _, err := s.Remove("tiny"); err != nil {
		t.Error(err)
	}
	if _, err := s.Load(t.Context(), "tiny"); !errors.Is(err, fault.PresetNameUnknown) || fault.From(err).Attr("known") != demo.Name {
		t.Errorf("after its removal: %v", err)
	}
	if _, err := s.Remove("tiny"); !errors.Is(err, fault.PresetNameUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	if left := within(t, data); !slices.Equal(left, []string{"presets"}) {
		t.Errorf("left behind: %v", left)
	}
}

// Reading changes nothing: no folder is made for those who only look.
func TestLookingMakesNothing(t *testing.T) {
	data := filepath.Join(t.TempDir(), "none")
	s := opened(t, data)
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("listed are %v (%v)", all, err)
	}
	if _, err := s.Get("x"); !errors.Is(err, fault.PresetNameUnknown) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder was made (%v)", err)
	}
}

func TestANameIsGivenOnce(t *testing.T) {
	data := t.TempDir()
	s := opened(t, data)
	added(t, s, "tiny")
	for name, want := range map[string]fault.Code{
		"tiny": fault.PresetNameTaken, demo.Name: fault.PresetNameTaken,
		"": fault.PresetNameInvalid, ".hidden": fault.PresetNameInvalid, "a/b": fault.PresetNameInvalid, "Big": fault.PresetNameInvalid,
		strings.Repeat("x", 65): fault.PresetNameInvalid,
	} {
		if d, err := s.Begin(name); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %s", name, err, want)
			if err == nil {
				d.Discard()
			}
		}
	}
	if got := within(t, filepath.Join(data, "presets")); len(got) != 4 {
		t.Errorf("there are %v", got)
	}
}

// Two that make the same preset at once: the second is told who the first is.
// Others may be made meanwhile, and one that looks disturbs nobody.
func TestTwoAtOnce(t *testing.T) {
	data := t.TempDir()
	s := opened(t, data)
	first := drafted(t, s, "tiny")
	if _, err := opened(t, data).Begin("tiny"); !errors.Is(err, fault.PresetFolderLocked) || fault.From(err).Attr("pid") == "" {
		t.Errorf("got %v", err)
	}
	added(t, s, "other")
	if all, err := s.List(); err != nil || len(all) != 1 {
		t.Errorf("listed are %v (%v)", all, err)
	}
	if _, err := first.Commit(described("tiny"), tiny()); err != nil {
		t.Error(err)
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("listed are %v (%v)", all, err)
	}
}

func TestADraftThatIsGivenUpLeavesNothing(t *testing.T) {
	data := t.TempDir()
	s := opened(t, data)
	drafted(t, s, "tiny").Discard()
	if left := within(t, data); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, commit := range map[string]func(*Draft) (*Preset, error){
		"a probe of another revision": func(d *Draft) (*Preset, error) {
			man := tiny()
			man.Revision = strings.Repeat("cd", 32)
			return d.Commit(described("tiny"), man)
		},
		"a torn probe": func(d *Draft) (*Preset, error) {
			if err := d.probe.Truncate(70); err != nil {
				t.Fatal(err)
			}
			return d.Commit(described("tiny"), tiny())
		},
	} {
		if p, err := commit(drafted(t, s, "tiny")); err == nil {
			t.Errorf("%s was kept: %+v", name, p)
		}
		if left := within(t, data); len(left) != 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
}

// What a process leaves that was killed is swept, what one that lives is making
// is not.
func TestLeftoversOfTheDeadAreSwept(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "presets")
	for _, name := range []string{".dead.adding", ".alive.adding", ".gone.removing", "kept"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"lock", "probe.bin"} {
			if err := os.WriteFile(filepath.Join(dir, name, file), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock, _, err := process.Lock(filepath.Join(dir, ".alive.adding", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer process.Unlock(lock)
	opened(t, data)
	want := []string{".alive.adding", ".alive.adding/lock", ".alive.adding/probe.bin", "kept", "kept/lock", "kept/probe.bin"}
	if got := within(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	added(t, opened(t, data), "dead") // the name is free again
}

func TestTheBuiltInModelHasAPreset(t *testing.T) {
	l, err := opened(t, t.TempDir()).Load(t.Context(), demo.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.Model.Layers != 8 || l.Model.Width != 128 || l.Tokenizer.Tokens != 1280 || l.Recipe.Context != 512 || len(l.Files) != 0 {
		t.Errorf("it is %+v", l.Preset)
	}
	for start := range 8 {
		for end := start + 1; end <= 8; end++ {
			r, err := l.Probe.Reference([2]int{start, end})
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range r.Passages {
				n := len(g.Prompt.Tokens)
				if start > 0 && len(g.In) != n*128 || end < 8 && len(g.Out) != n*128 || end == 8 && len(g.Logits) != 1280 {
					t.Errorf("layers %d:%d: %d in, %d out, %d logits for %d tokens", start, end, len(g.In), len(g.Out), len(g.Logits), n)
				}
			}
		}
	}
}
