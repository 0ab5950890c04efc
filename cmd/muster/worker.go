package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/chain"
	"muster/internal/infer"
	"muster/internal/weights"
	"muster/internal/wire"
)

func workerCommand(std stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use: "worker", Short: "Work with worker processes alone, without nodes", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(chainCommand(std), referenceCommand(std))
	return cmd
}

func chainCommand(std stdio) *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "chain",
		Short: "Serve a model with worker processes joined by shared memory",
		Long: "Serve a model with a chain of worker processes on this machine, joined by rings in shared\n" +
			"memory: no nodes, no network, no orchestrator. What `muster up` adds can be measured against it.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveChain(cmd.Context(), std, o, false) },
	}
	o.addFlags(cmd)
	return cmd
}

func referenceCommand(std stdio) *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "reference",
		Short: "Run the unsliced model in one process: the yardstick of everything else",
		Long: "Run the unsliced model in one worker process, by the same recipe and with the\n" +
			"same flags as `muster up` (--nodes has no effect), and print the same.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveChain(cmd.Context(), std, o, true) },
	}
	o.addFlags(cmd)
	return cmd
}

// serveChain forms the chain, answers, and ends it.
func serveChain(ctx context.Context, std stdio, o *options, whole bool) error {
	began := time.Now()
	cfg, free, err := o.chainConfig(std, whole)
	if err != nil {
		return err
	}
	defer free()
	c, err := chain.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Stop()
	s := session{std: std, o: o, by: chainServer{c}, ready: time.Since(began)}
	return s.serve(ctx)
}

// chainConfig turns the flags into a chain's configuration. free gives back
// what it opened.
func (o *options) chainConfig(std stdio, whole bool) (cfg chain.Config, free func(), err error) {
	dir, binary, err := o.programs()
	if err != nil {
		return cfg, nil, err
	}
	cache, err := weights.OpenCache(o.cacheFolder())
	if err != nil {
		return cfg, nil, err
	}
	model, err := o.source()
	if err != nil {
		return cfg, nil, err
	}
	free = func() {
		if model.File != nil {
			_ = model.File.Close() // read to its end by others
		}
	}
	workers := o.parts()
	if whole {
		workers = 1
	}
	p := newProgress(std.err)
	cfg = chain.Config{
		Model: model, Workers: workers, Cuts: o.cuts, Whole: whole, Recipe: o.recipe(),
		Engine: dir, Binary: binary, Cache: cache, Tell: p.Tell,
	}
	if o.log {
		cfg.Log = p.relay
	}
	return cfg, free, nil
}

type chainServer struct{ *chain.Chain }

func (c chainServer) answer(ctx context.Context, prompt string, how wire.Sampling, most int, emit func(string) error) (infer.Result, error) {
	ids, err := c.Tokenize(ctx, prompt)
	if err != nil {
		return infer.Result{}, err
	}
	return c.Generate(ctx, infer.Request{Prompt: ids, Sampling: how, MaxTokens: most},
		func(text string, _ wire.Answer) error { return emit(text) })
}

func (c chainServer) stages(ctx context.Context) ([]stageShown, error) {
	held, err := c.Stages(ctx)
	if err != nil {
		return nil, err
	}
	shown := make([]stageShown, len(held))
	for i, st := range held {
		shown[i] = stageShown{Name: st.Worker, Layers: st.Layers, ResidentBytes: st.ResidentBytes}
	}
	return shown, nil
}
