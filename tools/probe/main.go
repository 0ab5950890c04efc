// Command probe computes the reference probe of the built-in model and prints
// how far honest computations of it were apart. `make probe` writes the file
// that is built in; it differs in its last bits from machine to machine, so it
// is made anew only when the model, the recipe or the form of probes changes.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/enginedir"
	"muster/internal/event"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/preset"
	"muster/internal/rig"
	"muster/internal/rig/reference"
	"muster/internal/weights"
	"muster/internal/wire"
)

func main() {
	out := flag.String("out", "internal/demo/tale-q8_0.probe", "file to write")
	binary := flag.String("worker", "bin/muster-worker", "the worker")
	engine := flag.String("engine", "", "folder of the llama.cpp libraries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *out, *binary, *engine)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, binary, engine string) error {
	engine, err := enginedir.Locate(engine, enginedir.Bases()...)
	if err != nil {
		return err
	}
	if err := enginedir.Link(engine); err != nil {
		return err
	}
	b := demo.Tale()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), demo.Name)
	if err != nil {
		return err
	}
	m, err := gguf.Inspect(f)
	if err != nil {
		return err
	}
	cfg := rig.Config{Engine: engine, Binary: binary, Source: f, Tell: func(event.Event) {}}
	if cfg.Manifest, err = gguf.BuildManifest(ctx, f, nil); err != nil {
		return err
	}
	if cfg.Cache, err = weights.OpenCache(""); err != nil {
		return err
	}
	if cfg.Recipe, err = infer.SettleRecipe(wire.Recipe{Repack: true}, m.ContextTrained); err != nil {
		return err
	}
	if err := write(ctx, out, reference.Facts(m, cfg), cfg); err != nil {
		return err
	}
	return show(os.Stdout, out)
}

// write makes the file, or leaves the one there is as it was.
func write(ctx context.Context, out string, facts preset.Facts, cfg rig.Config) error {
	file, err := os.Create(out + ".new")
	if err != nil {
		return err
	}
	w, err := preset.NewProbeWriter(file, facts)
	if err == nil {
		err = reference.Make(ctx, cfg, w)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error counts
		return err
	}
	return os.Rename(file.Name(), out)
}

// show prints what was measured of each part.
func show(to io.Writer, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p, err := preset.ReadProbe(bytes.NewReader(b), int64(len(b)), path)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "%s: %d bytes, prompts of %d and %d tokens\n\n", path, len(b), len(p.Prompts[0].Tokens), len(p.Prompts[1].Tokens))
	fmt.Fprintln(to, "| layers | local: cosine | relative | carried: cosine | relative | tolerance: cosine | relative |\n|---|---|---|---|---|---|---|")
	for i, d := range p.Drifts {
		t := probe.Tolerate(p.Drifts[:i+1], i, p.Share, i == len(p.Drifts)-1)
		fmt.Fprintf(to, "| %d:%d | 1-%.1e | %.4f | 1-%.1e | %.4f | 1-%.1e | %.4f |\n", p.Borders[i], p.Borders[i+1],
			1-d.Local.Cosine, d.Local.Relative, 1-d.Carried.Cosine, d.Carried.Relative, 1-t.Cosine, t.Relative)
	}
	return nil
}
