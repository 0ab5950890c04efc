package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/infer"
	"muster/internal/orch"
	"muster/internal/wire"
)

// defaultPort is Muster's own: UDP for nodes, TCP for people.
const defaultPort = "6878"

// serveOptions are the flags of `muster serve`.
type serveOptions struct {
	data, listen, http string
	pool, poolFile     string
	nodes              []string
	loss               string
	formWithin         time.Duration
	model              string
	context, chunk     int
	threads, slots     int
	alone              bool // the recipe is deterministic
	engine, profile    string
	window             time.Duration
	stages             int
}

func serveCommand(std stdio) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the orchestrator: form a pool of nodes and serve a model on it",
		Long: "Run the orchestrator. It waits for the nodes of its pool, each `muster node`, and serves the\n" +
			"model once all of them have proven themselves and the pool has been stable for a window.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needsData(o.data); err != nil {
				return err
			}
			return orchestrate(cmd.Context(), std, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", defaultFolder("orchestrator"), "folder of key, pool, journal and slices")
	f.StringVar(&o.listen, "listen", "0.0.0.0:"+defaultPort, "UDP address for nodes")
	f.StringVar(&o.http, "http", "127.0.0.1:"+defaultPort, "TCP address for muster's other verbs, on loopback")
	f.StringVar(&o.pool, "pool", "", "name of the pool (default: the stored one, else pool)")
	f.StringSliceVar(&o.nodes, "node", nil, "a node of the pool as ID or ID=NAME, again for each: they replace the stored pool (see muster pool)")
	f.StringVar(&o.poolFile, "pool-file", "", "a pool in TOML that replaces the stored one, as muster pool show --toml prints it")
	f.StringVar(&o.model, "model", demo.Name, "a GGUF file, the name of a preset in --data (muster model), or tale for the built-in model")
	f.IntVar(&o.context, "ctx", 0, ctxUsage)
	f.IntVar(&o.slots, "slots", 4, slotsUsage)
	f.BoolVar(&o.alone, "deterministic", false, deterministicUsage)
	f.IntVar(&o.chunk, "chunk", 512, "prompt tokens computed at once")
	f.IntVar(&o.threads, "threads", 0, "compute threads a stage; 0 measures what is fastest")
	f.StringVar(&o.engine, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	f.StringVar(&o.profile, "profile", "lan", "how fast a loss is noticed: local, lan or wan")
	f.DurationVar(&o.window, "window", 0, "how long the pool must be stable; 0 takes the profile's least")
	f.StringVar(&o.loss, "on-loss", "wait", "when the ready pool loses a node before a run is committed: wait forms it again, abort gives up until muster form")
	f.DurationVar(&o.formWithin, "form-within", 0, "give up, until muster form, when the pool is not ready for so long; 0 waits without end")
	f.IntVar(&o.stages, "stages", 0, "exactly so many stages; 0 leaves it to the planner")
	return cmd
}

// defaultFolder is below the user's own folder for configuration; "" where the
// user has none.
func defaultFolder(of string) string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "muster", of)
}

// needsData refuses a data folder that nobody named and that has no default:
// neither key nor store may land wherever the program was started.
func needsData(data string) error {
	if data != "" {
		return nil
	}
	return fault.New(fault.CLIFlagInvalid, "", "flag", "--data", "value", "nothing",
		"want", "name a folder; the usual one is in the home folder, which HOME names")
}

func (o *serveOptions) config(std stdio) (orch.Config, error) {
	if err := checkBatch(o.chunk, o.slots); err != nil {
		return orch.Config{}, err
	}
	engine, err := findEngine(o.engine)
	if err != nil {
		return orch.Config{}, err
	}
	binary, err := workerBinary()
	if err != nil {
		return orch.Config{}, err
	}
	pool, err := o.definition()
	if err != nil {
		return orch.Config{}, err
	}
	policy, err := o.policy()
	if err != nil {
		return orch.Config{}, err
	}
	model := orch.Model{Name: o.model, Path: o.model}
	if o.model == demo.Name {
		model.Path = ""
	}
	return orch.Config{
		KeyPath: filepath.Join(o.data, "key"), DataDir: o.data, Listen: o.listen, Version: version,
		Pool: pool, Policy: policy, Model: model, Stages: [2]int{o.stages, o.stages},
		Recipe: wire.Recipe{
			Context: o.context * o.slots, Slots: o.slots, Chunk: o.chunk, Threads: o.threads,
			KVType: "f16", FlashAttention: "auto", Repack: true, Deterministic: o.alone,
		},
		Profile: o.profile, Window: o.window, Engine: engine, Binary: binary, Tell: newProgress(std.err).Tell,
	}, nil
}

func orchestrate(ctx context.Context, std stdio, o *serveOptions) error {
	cfg, err := o.config(std)
	if err != nil {
		return err
	}
	l, err := gateway.Listen(ctx, o.http)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	err = orch.Run(ctx, cfg, func(s *orch.Orch) {
		fmt.Fprintf(std.out, "nodes join with: muster node --orchestrator %s@%s\nothers ask at:   %s\n", s.ID(), s.Address(), l.Addr())
		g.Go(func() error { return gateway.Serve(ctx, l, backend(s, o.data)) })
	})
	cancel()
	_ = l.Close() // closed by Serve, unless it never came to that
	return errors.Join(err, g.Wait())
}

// backend lets the gateway ask an orchestrator.
func backend(s *orch.Orch, data string) gateway.Backend {
	return gateway.Backend{
		Status:   func(ctx context.Context) (any, error) { return s.Status(ctx) },
		Events:   func(since uint64) gateway.Events { return journalEvents{s.Events(since)} },
		Admitted: s.Admitted, Model: s.ModelName(),
		Stop: s.Stop, Form: s.Form, Pool: s.Pool, DefinePool: s.DefinePool, Data: absolute(data),
		Accounts: s.Accounts(),
		Generate: func(ctx context.Context, p gateway.Prompt, emit func(string) error) (gateway.Done, error) {
			if err := infer.CheckSampling(p.Sampling); err != nil {
				return gateway.Done{}, err
			}
			res, err := s.Generate(ctx, orch.Request{Prompt: p.Prompt, Sampling: p.Sampling, MaxTokens: p.MaxTokens, Accept: p.Accept},
				func(text string, _ wire.Answer) error { return emit(text) })
			return gateway.Done{
				Tokens: res.Tokens, PromptTokens: res.Prompted, FinishReason: string(res.Finish),
				TTFTMS: millis(res.FirstToken), TokensPerSecond: perSecond(res),
			}, err
		},
	}
}

type journalEvents struct{ from *orch.Events }

func (j journalEvents) Next(ctx context.Context) (gateway.Event, error) {
	e, err := j.from.Next(ctx)
	return gateway.Event{Sequence: e.Sequence, Event: e.Line}, err
}
