package chain

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/machine"
	"muster/internal/wire"
)

// part is what one process is to load: a stage, or the vocabulary.
type part struct {
	name   string
	stage  int // index in the chain, -1 for the tokenizer
	layers gguf.Range
	load   wire.Load
	body   source
	embed  source // first stage of a split model
}

// source is a file for a worker: its descriptor, so that the worker opens what
// was verified and not what has the name by then, or else a path.
type source struct {
	path string
	file *os.File
}

// files are the descriptors the worker is born with for its part.
func (p *part) files() []*os.File {
	var fs []*os.File
	for _, s := range []source{p.body, p.embed} {
		if s.file != nil {
			fs = append(fs, s.file)
		}
	}
	return fs
}

// request is the Load call, in a worker whose first file is descriptor fd.
func (p *part) request(cfg Config, fd int) wire.Request {
	l := p.load
	l.Recipe = cfg.Recipe
	l.ThreadsMost = max(1, runtime.NumCPU()/max(1, cfg.Workers))
	for _, s := range []struct {
		from source
		to   *string
	}{{p.body, &l.Path}, {p.embed, &l.Embedding}} {
		*s.to = s.from.path
		if s.from.file != nil {
			*s.to = fmt.Sprintf("/proc/self/fd/%d", fd)
			fd++
		}
	}
	return wire.Request{Op: wire.OpLoad, Load: &l}
}

// prepare reads the model, checks that it can be served as asked, and makes the
// slices, so that a bad file or a full disk is known before a process starts.
func (c *Chain) prepare(ctx context.Context) error {
	f, err := openModel(c.cfg.Model)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if c.model, err = gguf.Inspect(f); err != nil {
		return err
	}
	c.cfg.Tell(event.ModelInspected{
		Model: c.cfg.Model.Name, Architecture: c.model.Architecture, Layers: c.model.Layers, Bytes: f.Size(),
	})
	ranges, err := c.split()
	if err != nil {
		return err
	}
	if c.cfg.Recipe, err = settle(c.cfg.Recipe, c.model); err != nil {
		return err
	}
	if err := c.checkMemory(f.Size()); err != nil {
		return err
	}
	return c.cut(ctx, f, ranges)
}

// split is the layers of each worker: as told, or nearly equal.
func (c *Chain) split() ([]gguf.Range, error) {
	if c.cfg.Whole || len(c.cfg.Cuts) == 0 {
		return gguf.EvenSplit(c.model, c.cfg.Workers)
	}
	ranges, err := gguf.SplitAt(c.model, c.cfg.Cuts)
	if err != nil {
		return nil, err
	}
	c.cfg.Workers = len(ranges)
	return ranges, nil
}

func openModel(m Model) (*gguf.File, error) {
	if m.File == nil {
		return gguf.Open(m.Path)
	}
	info, err := m.File.Stat()
	if err != nil {
		return nil, fault.New(fault.GGUFFileUnreadable, "", "path", m.Name).Because(err)
	}
	return gguf.Read(m.File, info.Size(), m.Name)
}

// settle fills in what the recipe leaves open and refuses impossible settings
// by the name of their flag.
func settle(r wire.Recipe, m *gguf.Model) (wire.Recipe, error) {
	if most := runtime.NumCPU(); r.Threads < 0 || r.Threads > most {
		return r, fault.New(fault.RecipeInvalid, "", "field", "threads", "value", r.Threads,
			"want", fmt.Sprintf("give a number from 1 to %d, the processors of this machine, or 0 to have it measured; more than are free "+
				"are many times slower than one", most))
	}
	return infer.SettleRecipe(r, m.ContextTrained)
}

// checkMemory compares what weights, KV cache and compute buffers will need
// with what is free: llama.cpp aborts, or the kernel kills, where it runs out.
func (c *Chain) checkMemory(weightBytes int64) error {
	free, ok := machine.MeasureMemory()
	if !ok {
		return nil
	}
	r, m := c.cfg.Recipe, c.model
	const kvBytes = 2 // f16
	kv := m.KVBytes(m.Layers, r.Context, kvBytes)
	// Measured: the largest graphs hold a few activations of every token of a
	// chunk, and the last stage the logits of each.
	compute := uint64(r.Chunk) * 4 * uint64(8*m.Width+m.Vocabulary)
	need := uint64(weightBytes) + kv + uint64(c.cfg.Workers)*compute
	if need > free.Available {
		return fault.New(fault.RecipeContextTooLarge, "", "context", r.Context,
			"need", bytesText(need), "available", bytesText(free.Available))
	}
	return nil
}

func bytesText(n uint64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, prefix := float64(n)/unit, "KMGTPE"
	for v >= unit && len(prefix) > 1 {
		v, prefix = v/unit, prefix[1:]
	}
	return fmt.Sprintf("%.1f %ciB", v, prefix[0])
}

// cut makes the parts of the chain and of the tokenizer.
func (c *Chain) cut(ctx context.Context, f *gguf.File, ranges []gguf.Range) error {
	man, err := c.cfg.Cache.Manifest(ctx, f, c.progress("checksums"))
	if err != nil {
		return err
	}
	for i, r := range ranges {
		p := part{name: workerName(i), stage: i, layers: r}
		if c.cfg.Whole {
			c.wholePart(&p)
		} else {
			err = c.slicePart(ctx, f, man, &p, len(ranges))
		}
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	vocabulary, err := gguf.PlanVocabulary(f, c.model)
	if err != nil {
		return err
	}
	p := part{name: "tokenizer", stage: -1, load: wire.Load{Kind: wire.LoadVocabulary}}
	if p.body, err = c.slice(ctx, f, man, vocabulary, "vocabulary"); err != nil {
		return err
	}
	c.parts = append(c.parts, p)
	return nil
}

func (c *Chain) wholePart(p *part) {
	p.load = wire.Load{Kind: wire.LoadWhole, First: true, Last: true, Layers: pair(p.layers)}
	p.body = source{path: c.cfg.Model.Path, file: c.cfg.Model.File}
}

func (c *Chain) slicePart(ctx context.Context, f *gguf.File, man *gguf.Manifest, p *part, workers int) error {
	p.load = wire.Load{Kind: wire.LoadStage, First: p.stage == 0, Last: p.stage == workers-1, Layers: pair(p.layers)}
	plan, err := gguf.PlanSlice(f, c.model, p.layers)
	if err != nil {
		return err
	}
	if p.body, err = c.slice(ctx, f, man, plan, fmt.Sprintf("layers %d to %d", p.layers.Start, p.layers.End-1)); err != nil || !p.load.First {
		return err
	}
	p.load.EmbeddingScale = c.model.EmbeddingScale
	if plan, err = gguf.PlanEmbedding(f, c.model); err != nil {
		return err
	}
	p.embed, err = c.slice(ctx, f, man, plan, "embedding")
	return err
}

func (c *Chain) slice(ctx context.Context, f *gguf.File, man *gguf.Manifest, plan *gguf.SlicePlan, what string) (source, error) {
	s, err := c.cfg.Cache.Slice(ctx, plan, f, man, c.progress(what))
	if err != nil {
		return source{}, err
	}
	c.close = append(c.close, s.Close)
	c.cfg.Tell(event.SliceReady{Slice: what, Bytes: s.Size(), Cached: !s.Made, Replaced: s.Replaced})
	return source{file: s.File()}, nil
}

// progress tells at most ten times a second how far the making of a slice is.
func (c *Chain) progress(what string) func(done, total int64) {
	var last time.Time
	return func(done, total int64) {
		if now := time.Now(); now.Sub(last) >= 100*time.Millisecond {
			last = now
			c.cfg.Tell(event.SliceProgressed{Slice: what, Done: done, Total: total})
		}
	}
}

func pair(r gguf.Range) [2]int { return [2]int{r.Start, r.End} }
