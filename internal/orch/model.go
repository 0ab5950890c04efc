package orch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"muster/internal/core/admit"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/preset"
	"muster/internal/weights"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// model is the model that is served: its header from the start on, its digests
// once they are known.
type model struct {
	name   string
	file   *gguf.File
	facts  *gguf.Model
	parts  []part
	recipe wire.Recipe

	manifest *gguf.Manifest
	revision admit.Digest
	source   *controlpb.ModelSource
	preset   *preset.Loaded   // nil where the model was not named by one
	probe    *preset.Probe    // nil: nobody knows what it must compute
	asked    *controlpb.Probe // as nodes are told of it
}

// part is one file of the model, as nodes read it.
type part struct {
	in   io.ReaderAt
	size int64
	path string
}

// openModel reads the header of the model and settles the recipe by it.
func openModel(ctx context.Context, cfg Config) (*model, error) {
	m := &model{name: cfg.Model.Name}
	err := m.open(ctx, cfg)
	if err == nil {
		err = m.inspect(cfg.Recipe)
	}
	if err == nil {
		err = m.divisible(cfg)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// open finds the model: the built-in one, a preset by its name, or a file.
func (m *model) open(ctx context.Context, cfg Config) (err error) {
	path := cfg.Model.Path
	switch {
	case path == "" && m.name != demo.Name:
		return fault.New(fault.GGUFFileMissing, "", "path", m.name)
	case path == "":
		tale := bytes.NewReader(demo.Tale())
		m.file, err = gguf.Read(tale, tale.Size(), demo.Name)
		m.parts = []part{{in: tale, size: tale.Size()}}
		return err
	case cfg.DataDir != "" && preset.IsName(path):
		presets, err := preset.Open(cfg.DataDir)
		if err != nil {
			return err
		}
		if m.preset, err = presets.Load(ctx, path); err != nil {
			return err
		}
		path = m.preset.Files[0]
	}
	m.file, err = gguf.Open(path)
	return err
}

// divisible refuses cuts and numbers of stages that the model can never have,
// before any node is asked.
func (m *model) divisible(cfg Config) error {
	if most := len(m.facts.Cuts()) - 1; cfg.Stages[0] > most {
		return fault.New(fault.ModelLayersTooFew, component, "workers", cfg.Stages[0], "most", most)
	}
	_, err := m.parted(cfg.Cuts)
	return err
}

// parted are the ranges of layers between cuts; none where there is no cut.
func (m *model) parted(cuts []int) ([]gguf.Range, error) {
	if len(cuts) == 0 {
		return nil, nil
	}
	return gguf.SplitAt(m.facts, cuts)
}

func (m *model) inspect(r wire.Recipe) error {
	for _, p := range m.file.Parts {
		if p.File == nil {
			continue
		}
		path, err := filepath.Abs(p.Path)
		if err != nil {
			path = "" // nodes read it from here
		}
		m.parts = append(m.parts, part{in: p.File, size: p.Size, path: path})
	}
	var err error
	if m.facts, err = gguf.Inspect(m.file); err != nil {
		return err
	}
	m.recipe, err = infer.SettleRecipe(r, m.facts.ContextTrained)
	return err
}

// digest reads every tensor once, or finds what was read before, and makes the
// source that nodes are told.
func (m *model) digest(ctx context.Context, cache *weights.Cache, progress func(done, total int64)) error {
	man, err := cache.Manifest(ctx, m.file, progress)
	if err != nil {
		return err
	}
	text, err := json.Marshal(man)
	if err != nil {
		return fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if m.revision, err = admit.ParseDigest(man.Revision); err != nil {
		return fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if err := m.findProbe(ctx, man); err != nil {
		return err
	}
	m.manifest = man
	m.source = &controlpb.ModelSource{Name: m.name, Revision: man.Revision, ManifestJson: text}
	for _, p := range m.parts {
		m.source.Parts = append(m.source.Parts, &controlpb.Part{SizeBytes: p.size, Path: p.path})
	}
	return nil
}

// findProbe takes the reference of the preset, or the built-in one where the
// model is the built-in one, where it was computed as the run computes.
func (m *model) findProbe(ctx context.Context, man *gguf.Manifest) error {
	known := m.preset
	if known == nil {
		own, err := preset.BuiltIn(ctx)
		if err != nil || own.Revision != man.Revision {
			return err
		}
		known = own
	}
	if known.Revision != man.Revision {
		return fault.New(fault.PresetModelChanged, component, "name", known.Name, "what", "its content has another revision")
	}
	if !known.Probe.Fits(m.recipe) {
		return nil
	}
	_, size := known.Probe.Source()
	m.probe, m.asked = known.Probe, &controlpb.Probe{Digest: known.Probe.Digest, SizeBytes: size}
	return nil
}

// lookup gives nodes the parts of the one revision that is published, and its
// probe by the digest of that.
func (m *model) lookup(revision string, i int) (io.ReaderAt, int64, error) {
	if m.probe != nil && revision == m.probe.Digest && i == 0 {
		in, size := m.probe.Source()
		return in, size, nil
	}
	if m.manifest == nil || revision != m.manifest.Revision || i < 0 || i >= len(m.parts) {
		return nil, 0, fault.New(fault.WeightsRevisionUnknown, component, "revision", revision, "part", i)
	}
	return m.parts[i].in, m.parts[i].size, nil
}

func (m *model) inspected() event.Event {
	return event.ModelInspected{Model: m.name, Architecture: m.facts.Architecture, Layers: m.facts.Layers, Bytes: m.file.Size()}
}

func (m *model) close() error {
	if m.preset != nil {
		m.preset.Close()
	}
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}
