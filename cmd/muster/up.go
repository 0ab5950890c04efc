package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/infer"
	"muster/internal/local"
	"muster/internal/orch"
	"muster/internal/wire"
)

func upCommand(std stdio) *cobra.Command {
	o := newOptions()
	var http string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Form a pool of nodes on this machine, serve a model and answer prompts",
		Long: "Form a pool on this machine, an orchestrator with node processes of their own, and serve a\n" +
			"model on it. With --prompt it answers and exits. Without, it answers each line of its input, and\n" +
			"muster's other verbs (run, status, events) reach it meanwhile. Everything ends with this program.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), std, o, http) },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&http, "http", "", "TCP address for muster's other verbs (default: port "+defaultPort+" of loopback, or any where that is taken)")
	return cmd
}

// up forms the pool, answers, and ends it.
func up(ctx context.Context, std stdio, o *options, http string) error {
	began := time.Now()
	progress := newProgress(std.err)
	cfg, err := o.localConfig(progress)
	if err != nil {
		return err
	}
	l, err := listenHTTP(ctx, http)
	if err != nil {
		return err
	}
	p, err := local.Start(ctx, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	serving, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return gateway.Serve(serving, l, backend(p.Orch(), p.DataDir())) })
	if !o.prompted() {
		fmt.Fprintf(std.err, "from another terminal: muster status%s\n", apiOf(l.Addr()))
	}
	if err = p.Await(ctx); err == nil {
		s := session{std: std, o: o, by: poolServer{p}, ready: time.Since(began)}
		err = s.serve(ctx)
	}
	progress.mute() // what follows is of no answer any more
	closed := p.Close(context.WithoutCancel(ctx))
	cancel()
	return errors.Join(err, closed, g.Wait())
}

// apiOf is the flag by which other verbs find an address, "" where they do by
// themselves.
func apiOf(address net.Addr) string {
	if address.String() == "127.0.0.1:"+defaultPort {
		return ""
	}
	return " --api " + address.String()
}

// listenHTTP takes the address asked for, else the usual one if it is free.
func listenHTTP(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		if l, err := gateway.Listen(ctx, "127.0.0.1:"+defaultPort); err == nil {
			return l, nil
		}
		address = "127.0.0.1:0"
	}
	return gateway.Listen(ctx, address)
}

// localConfig turns the flags into a pool's configuration.
func (o *options) localConfig(p *progress) (local.Config, error) {
	dir, binary, err := o.programs()
	if err != nil {
		return local.Config{}, err
	}
	if err := checkThreads(o.threads); err != nil {
		return local.Config{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return local.Config{}, fault.New(fault.NodeSpawnFailed, "", "path", "unknown").Because(err)
	}
	model := orch.Model{Name: o.model, Path: o.model}
	if o.model == demo.Name {
		model.Path = ""
	}
	cfg := local.Config{
		Nodes: o.parts(), Model: model, Recipe: o.recipe(), Cuts: o.cuts, Data: o.data,
		Engine: dir, Binary: binary, Program: program, Version: version, ThreadsMost: max(1, runtime.NumCPU()/max(1, o.parts())),
		Tell: func(node string, e event.Event) {
			switch {
			case node == "":
				p.Tell(e)
			case !toldTwice(e):
				p.tellOf(node, e)
			}
		},
	}
	if o.log {
		cfg.Log = p.relay
	}
	return cfg, nil
}

// toldTwice is true of what a node tells and the orchestrator or a fact tells
// with it.
func toldTwice(e event.Event) bool {
	switch e.(type) {
	case event.NodeBecameAvailable, event.WorkerStarted, event.StageLoaded:
		return true
	}
	return false
}

type poolServer struct{ *local.Pool }

func (p poolServer) answer(ctx context.Context, prompt string, how wire.Sampling, most int, emit func(string) error) (infer.Result, error) {
	return p.Generate(ctx, orch.Request{Prompt: prompt, Sampling: how, MaxTokens: most},
		func(text string, _ wire.Answer) error { return emit(text) })
}

func (p poolServer) stages(ctx context.Context) ([]stageShown, error) {
	s, err := p.Orch().Status(ctx)
	if err != nil {
		return nil, err
	}
	shown := []stageShown{}
	if s.Run != nil {
		for _, st := range s.Run.Stages {
			shown = append(shown, stageShown{Name: st.Name, Layers: st.Layers, ResidentBytes: st.ResidentBytes})
		}
	}
	return shown, nil
}
