package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/doctor"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/machine"
	"muster/internal/preset"
	"muster/internal/reports"
	"muster/internal/rig"
	"muster/internal/weights"
	"muster/internal/wire"
)

// subject is what is to be examined.
type subject struct {
	name      string // of the model, for people
	cfg       rig.Config
	model     *gguf.Model
	reference *probe.Reference // nil where no preset has one for the recipe
	show      *progress
	closers   []func()
}

func (s *subject) close() {
	for _, c := range s.closers {
		c()
	}
}

// open finds the model, its manifest and its reference, and settles the recipe.
func (o *doctorOptions) open(ctx context.Context, show *progress) (s *subject, err error) {
	s = &subject{name: o.model, show: show, cfg: rig.Config{Name: "worker", Tell: show.Tell}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if o.log {
		s.cfg.Log = func(line string) { show.relay("engine", line) }
	}
	if err = checkThreads(o.recipe.Threads); err != nil {
		return s, err
	}
	if s.cfg.Engine, err = findEngine(o.engine); err != nil {
		return s, err
	}
	if s.cfg.Binary, err = workerBinary(); err != nil {
		return s, err
	}
	cache := ""
	if o.named("data") {
		cache = filepath.Join(o.data, "cache") // that of a node with this folder
	}
	if s.cfg.Cache, err = weights.OpenCache(cache); err != nil {
		return s, err
	}
	if o.ofPreset() {
		err = s.ofPreset(ctx, o)
	} else {
		err = s.ofFile(ctx, o)
	}
	return s, err
}

// ofPreset reports whether the model is named and no file.
func (o *doctorOptions) ofPreset() bool {
	return o.model == demo.Name || preset.IsName(o.model)
}

func (s *subject) ofFile(ctx context.Context, o *doctorOptions) error {
	if err := s.read(o.model); err != nil {
		return err
	}
	var err error
	if s.cfg.Layers, err = layersOf(o.layers, s.model.Layers); err != nil {
		return err
	}
	if s.cfg.Recipe, err = settled(o.recipe, wire.Recipe{Repack: true}, s.model); err != nil {
		return err
	}
	s.cfg.Manifest, err = s.cfg.Cache.Manifest(ctx, s.cfg.Source, checksums(s.show))
	return err
}

func (s *subject) ofPreset(ctx context.Context, o *doctorOptions) error {
	folder := o.data
	if !o.named("data") {
		folder = defaultFolder("orchestrator") // where muster model keeps them
	}
	store, err := preset.Open(folder)
	if err != nil {
		return err
	}
	p, err := store.Load(ctx, o.model)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, p.Close)
	path := ""
	if len(p.Files) > 0 {
		path = p.Files[0]
	}
	if err := s.read(path); err != nil {
		return err
	}
	if s.cfg.Layers, err = layersOf(o.layers, s.model.Layers); err != nil {
		return err
	}
	if err := s.model.CheckCut(s.cfg.Layers.Start, s.cfg.Layers.End); err != nil {
		return err
	}
	if s.cfg.Recipe, err = settled(o.recipe, p.Recipe, s.model); err != nil {
		return err
	}
	s.cfg.Manifest = p.Manifest
	if p.Probe.Fits(s.cfg.Recipe) {
		s.reference, err = p.Probe.Reference([2]int{s.cfg.Layers.Start, s.cfg.Layers.End})
	}
	return err
}

// read opens the model's file, "" for the built-in one.
func (s *subject) read(path string) (err error) {
	if path == "" {
		b := demo.Tale()
		s.cfg.Source, err = gguf.Read(bytes.NewReader(b), int64(len(b)), demo.Name)
	} else if s.cfg.Source, err = gguf.Open(path); err == nil {
		s.closers = append(s.closers, func() { _ = s.cfg.Source.Close() }) // it was only read
	}
	if err != nil {
		return err
	}
	s.model, err = gguf.Inspect(s.cfg.Source)
	return err
}

// settled is the recipe of the flags, completed by that of the preset and of
// the model.
func settled(asked, kept wire.Recipe, m *gguf.Model) (wire.Recipe, error) {
	for _, n := range []struct {
		asked int
		to    *int
	}{{asked.Context, &kept.Context}, {asked.Slots, &kept.Slots}, {asked.Chunk, &kept.Chunk}, {asked.Threads, &kept.Threads}, {asked.GPULayers, &kept.GPULayers}} {
		if n.asked != 0 {
			*n.to = n.asked
		}
	}
	if asked.KVType != "" {
		kept.KVType = asked.KVType
	}
	if asked.FlashAttention != "" {
		kept.FlashAttention = asked.FlashAttention
	}
	kept.Deterministic = kept.Deterministic || asked.Deterministic
	r, err := infer.SettleRecipe(kept, m.ContextTrained)
	least := max(doctor.LeastContext, r.Slots)
	if r.Deterministic {
		least = doctor.LeastContext * r.Slots
	}
	if err == nil && r.Context < least {
		err = fault.New(fault.RecipeInvalid, "", "field", "ctx", "value", r.Context, "want", fmt.Sprintf("give %d or more", least))
	}
	return r, err
}

// examine has a worker load the layers and examines it. The error is of what is
// not the shard's doing; what is stands in the report.
func (s *subject) examine(ctx context.Context) (reports.Report, error) {
	r := reports.Report{Version: reports.Version, Model: s.name, Revision: s.cfg.Manifest.Revision, Recipe: s.cfg.Recipe}
	r.Findings = doctor.Findings{Name: s.cfg.Name, Layers: [2]int{s.cfg.Layers.Start, s.cfg.Layers.End}, Context: s.cfg.Recipe.Context}
	s.show.Tell(event.ModelInspected{Model: s.name, Architecture: s.model.Architecture, Layers: s.model.Layers, Bytes: s.cfg.Source.Size()})
	free, _ := machine.MeasureMemory() // none is known elsewhere: 0
	held, err := rig.Start(ctx, s.cfg)
	if err == nil {
		defer held.Close()
		r.Findings, err = doctor.Examine(ctx, held, s.exam(held, free.Available))
		r.Failed = r.Findings.Failed()
	} else if ctx.Err() == nil && !errors.Is(err, fault.ModelCutRefused) {
		r.Failed, err = fault.From(err), nil
	}
	r.At = time.Now().UTC()
	return r, err
}

// exam is that of the layers which the rig holds.
func (s *subject) exam(held *rig.Rig, memory uint64) doctor.Exam {
	e := doctor.Of(s.cfg.Source, s.model, s.cfg.Layers, s.cfg.Recipe, held.Loaded())
	e.Name, e.Reference, e.MemoryPlanned = s.cfg.Name, s.reference, memory
	e.Verify = func(ctx context.Context) (int, error) {
		all := 0
		for _, file := range held.Slices() {
			n, err := file.Plan.Differing(ctx, file.File, file.Size, s.cfg.Manifest)
			if err != nil {
				return 0, err
			}
			all += n
		}
		return all, nil
	}
	e.Tell = func(part string) { s.show.relay("doctor", part) }
	return e
}
