package preset

import (
	"bytes"
	"context"

	"muster/internal/demo"
	"muster/internal/gguf"
)

// Loaded is a preset with all that belongs to it. Close it after use.
type Loaded struct {
	Preset
	Manifest *gguf.Manifest
	Probe    *Probe
}

// Close ends the use of the probe's file.
func (l *Loaded) Close() { l.Probe.Close() }

// Load reads a preset, or the built-in one by its name. Faults as of Get,
// Manifest and Probe.
func (s *Store) Load(ctx context.Context, name string) (*Loaded, error) {
	if name == demo.Name {
		return BuiltIn(ctx)
	}
	p, err := s.Get(name)
	if err != nil {
		return nil, err
	}
	man, err := s.Manifest(p)
	if err != nil {
		return nil, err
	}
	probe, err := s.Probe(p)
	if err != nil {
		return nil, err
	}
	return &Loaded{Preset: *p, Manifest: man, Probe: probe}, nil
}

// BuiltIn is the preset of the built-in model. Its revision is that of the
// bytes in this program, and its probe is only taken if it is of that.
func BuiltIn(ctx context.Context) (*Loaded, error) {
	b := demo.Tale()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), demo.Name)
	if err != nil {
		return nil, err
	}
	m, err := gguf.Inspect(f)
	if err != nil {
		return nil, err
	}
	man, err := gguf.BuildManifest(ctx, f, nil)
	if err != nil {
		return nil, err
	}
	p, err := Describe(demo.Name, f, m)
	if err != nil {
		return nil, err
	}
	b = demo.Probe()
	probe, err := ReadProbe(bytes.NewReader(b), int64(len(b)), demo.Name)
	if err != nil {
		return nil, err
	}
	if probe.Revision != man.Revision {
		return nil, (&Store{}).foreign(&p, probeFile, probe.Revision)
	}
	p.Files, p.Revision, p.Recipe, p.ProbeDigest = []string{}, man.Revision, probe.Recipe, probe.Digest
	return &Loaded{Preset: p, Manifest: man, Probe: probe}, nil
}
