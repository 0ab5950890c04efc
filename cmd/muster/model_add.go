package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/fetch"
	"muster/internal/gguf"
	"muster/internal/infer"
	"muster/internal/preset"
	"muster/internal/rig"
	"muster/internal/rig/reference"
	"muster/internal/weights"
	"muster/internal/wire"
)

// modelAdd are the flags of `muster model add`.
type modelAdd struct {
	*modelOptions
	name, engine   string
	sha256         string
	context, chunk int
	log            bool
}

func modelAddCommand(std stdio, shared *modelOptions) *cobra.Command {
	o := &modelAdd{modelOptions: shared}
	cmd := &cobra.Command{
		Use:   "add PATH|URL",
		Short: "Make a preset of a GGUF file: read all of it, and compute its reference",
		Long: "Make a preset of a GGUF file; of a split model name any part. One at http://, https:// or\n" +
			"hf://OWNER/REPO/FILE[@REVISION] is fetched first, into the data folder; a download that was cut off is\n" +
			"taken up where it was when the same command is given again. HF_TOKEN is sent to hf:// addresses, and\n" +
			"HF_ENDPOINT is another hub. All of it is read, and a reference is\n" +
			"computed layer by layer, so that the memory of one layer is enough, and of the head for the last. Both\n" +
			"take as long as the model is large. --ctx and --chunk go into the preset's default recipe.",
		Args: words(1, 1, "the path or the address of a GGUF file"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.add(cmd.Context(), std, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the preset (default: that of the file)")
	f.StringVar(&o.sha256, "sha256", "", "digest that a fetched file must have, as sha256sum prints it")
	f.IntVar(&o.context, "ctx", 0, "tokens of prompt and answer together; 0 takes the model's own, 4096 at most")
	f.IntVar(&o.chunk, "chunk", 512, "prompt tokens computed at once")
	f.StringVar(&o.engine, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	f.BoolVar(&o.log, "engine-log", false, "print the engine's warnings as they come")
	return cmd
}

func (o *modelAdd) add(ctx context.Context, std stdio, path string) error {
	if err := checkBatch(o.chunk, 1); err != nil {
		return err
	}
	s, err := o.presets()
	if err != nil {
		return err
	}
	show := newProgress(std.err)
	if !fetch.Remote(path) {
		o.name = cmp.Or(o.name, preset.NameOf(path))
		if o.sha256 != "" {
			return fault.New(fault.CLIFlagInvalid, "", "flag", "--sha256", "value", o.sha256, "want", "leave it out: it is of files that are fetched")
		}
		return o.keep(ctx, std, show, path, func() (*preset.Draft, error) { return s.Begin(o.name) })
	}
	from, err := fetch.Parse(path, o.sha256, os.Getenv("HF_ENDPOINT"))
	if err != nil {
		return err
	}
	o.name = cmp.Or(o.name, preset.NameOf(from.URLs[0].Path))
	draft, err := s.Begin(o.name) // nobody else fetches or makes it meanwhile
	if err != nil {
		return err
	}
	defer draft.Discard()
	how := fetch.Config{Tell: show.Tell}
	if strings.HasPrefix(path, "hf://") {
		how.Token = os.Getenv("HF_TOKEN")
	}
	file, err := how.Files(ctx, from, s.ModelFolder(o.name))
	if err != nil {
		return err
	}
	return o.keep(ctx, std, show, file, func() (*preset.Draft, error) { return draft, nil })
}

// keep makes the preset of the file at path, when that was looked at.
func (o *modelAdd) keep(ctx context.Context, std stdio, show *progress, path string, begin func() (*preset.Draft, error)) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	m, err := gguf.Inspect(f)
	if err != nil {
		return err
	}
	cfg, err := o.rig(f, m, show)
	if err != nil {
		return err
	}
	draft, err := begin()
	if err != nil {
		return err
	}
	defer draft.Discard()
	show.Tell(event.ModelInspected{Model: path, Architecture: m.Architecture, Layers: m.Layers, Bytes: f.Size()})
	if cfg.Manifest, err = gguf.BuildManifest(ctx, f, checksums(show)); err != nil {
		return err
	}
	w, err := draft.Probe(reference.Facts(m, cfg))
	if err != nil {
		return err
	}
	if err := reference.Make(ctx, cfg, w); err != nil {
		return err
	}
	p, err := preset.Describe(o.name, f, m)
	if err != nil {
		return err
	}
	p.Recipe = cfg.Recipe
	kept, err := draft.Commit(p, cfg.Manifest)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(std, kept)
	}
	return written(fmt.Fprintf(std.out, "%s: revision %s\n", kept.Name, kept.Revision))
}

// rig is the configuration of the rigs by which the reference is computed.
func (o *modelAdd) rig(f *gguf.File, m *gguf.Model, show *progress) (cfg rig.Config, err error) {
	cfg = rig.Config{Source: f, Tell: show.Tell}
	if o.log {
		cfg.Log = func(line string) { show.relay("engine", line) }
	}
	if cfg.Engine, err = findEngine(o.engine); err != nil {
		return cfg, err
	}
	if cfg.Binary, err = workerBinary(); err != nil {
		return cfg, err
	}
	if cfg.Recipe, err = infer.SettleRecipe(wire.Recipe{Context: o.context, Chunk: o.chunk, Repack: true}, m.ContextTrained); err != nil {
		return cfg, err
	}
	cfg.Cache, err = weights.OpenCache("") // a layer's slice is of no use afterwards
	return cfg, err
}
