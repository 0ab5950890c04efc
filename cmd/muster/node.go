package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/identity"
	"muster/internal/node"
)

// nodeOptions are the flags of `muster node`.
type nodeOptions struct {
	orchestrator, data, listen string
	advertise                  []string
	pool, engine               string
	key                        string
	memory                     uint64
	threadsMost                int
	deferWorker, showID        bool
	tied, once, json, log      bool
	giveUp                     time.Duration
	model, layers              string // what is offered
}

func nodeCommand(std stdio) *cobra.Command {
	o := &nodeOptions{}
	cmd := &cobra.Command{
		Use:   "node --orchestrator ID@HOST:PORT",
		Short: "Run this machine as a node of a pool",
		Long: "Run this machine as a node. It proves each readiness fact, reports itself available, and holds\n" +
			"the layers that the orchestrator gives it. --id prints its id, for `muster serve --node`.\n\n" +
			"With --model and --layers it offers a shard of its own choice: once it is available it loads these\n" +
			"layers, has them examined by a real forward and registered, and holds them until a plan gives it a\n" +
			"stage. The planner takes an offer as a pin, or releases it and says why. An offer that fails its\n" +
			"doctor ends the node by that fault.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.key == "" {
				if err := needsData(o.data); err != nil {
					return err
				}
			}
			if o.showID {
				return o.printID(std)
			}
			cfg, err := o.config(std)
			if err != nil {
				return err
			}
			ctx, in := cmd.Context(), bufio.NewReader(std.in)
			if o.key == "-" {
				if cfg.Key, err = identity.Read(in); err != nil {
					return err
				}
			}
			if o.tied {
				var cancel context.CancelFunc
				ctx, cancel = untilItEnds(ctx, in)
				defer cancel()
			}
			if o.json {
				lines := newEventLines(std.out)
				defer lines.close()
				cfg.Tell = lines.tell
			}
			return node.Run(ctx, cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.orchestrator, "orchestrator", "", "the orchestrator as ID@HOST:PORT, as muster serve prints it")
	f.StringVar(&o.data, "data", defaultFolder("node"), "folder of the node's key and its slices")
	f.StringVar(&o.listen, "listen", "0.0.0.0:0", "UDP address; port 0 takes any")
	f.StringVar(&o.key, "key", "", "file of the node's key (default: key in the data folder); - reads it from standard input")
	f.StringSliceVar(&o.advertise, "advertise", nil, "host:port at which others reach this node (default: what it listens on)")
	f.StringVar(&o.pool, "pool", "", "name of the pool (default: the one the orchestrator has)")
	f.StringVar(&o.engine, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	f.BoolVar(&o.deferWorker, "defer-worker", false, "start the worker with the first stage; the stage then proves it")
	f.Uint64Var(&o.memory, "memory", 0, "bytes of memory to offer at most; 0 offers all that is free")
	f.IntVar(&o.threadsMost, "threads-most", 0, "compute threads at most, where the recipe leaves them open; 0: all processors")
	f.BoolVar(&o.tied, "tied", false, "leave when standard input ends: the node never outlives who started it")
	f.BoolVar(&o.json, "json", false, "print events as they happen, an object a line, and last the fault that ended the node")
	f.BoolVar(&o.log, "engine-log", false, "print the engine's warnings as they come")
	f.DurationVar(&o.giveUp, "give-up", 0, "end when not available for so long; 0 goes on trying")
	f.BoolVar(&o.once, "once", false, "end by the first fault, and try nothing again")
	f.StringVar(&o.model, "model", "", "the served model of which layers are offered: its name, or the beginning of its revision")
	f.StringVar(&o.layers, "layers", "", "the layers to offer, FROM:TO, TO not among them, such as 2:5")
	f.BoolVar(&o.showID, "id", false, "print this node's id, made at the first call, and end")
	return cmd
}

func (o *nodeOptions) keyPath() string {
	switch {
	case o.key == "-":
		return "" // it comes by another way
	case o.key != "":
		return o.key
	case o.data == "":
		return ""
	}
	return filepath.Join(o.data, "key")
}

// untilItEnds ends the context with the input, whatever else comes on it.
func untilItEnds(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, in) // how it ended makes no difference
		cancel()
	}()
	return ctx, cancel
}

func (o *nodeOptions) printID(std stdio) error {
	key, err := identity.LoadOrMake(o.keyPath())
	if err != nil {
		return err
	}
	return written(fmt.Fprintln(std.out, id.NodeIDOf(key.Public().(ed25519.PublicKey))))
}

// mostModelName is more bytes than the name of any model has.
const mostModelName = 256

// offer is what the flags choose, nil where they choose nothing.
func (o *nodeOptions) offer() (*node.Offer, error) {
	switch {
	case o.model == "" && o.layers == "":
		return nil, nil //nolint:nilnil // no offer is no fault
	case o.model == "":
		return nil, fault.New(fault.CLIFlagInvalid, "", "flag", "--layers", "value", o.layers, "want", "name the model too, with --model")
	case o.layers == "":
		return nil, fault.New(fault.CLIFlagInvalid, "", "flag", "--model", "value", o.model, "want", "say which of its layers are offered, with --layers FROM:TO")
	}
	if len(o.model) > mostModelName || !utf8.ValidString(o.model) || strings.ContainsFunc(o.model, unicode.IsControl) {
		return nil, fault.New(fault.CLIFlagInvalid, "", "flag", "--model", "value", fmt.Sprintf("%.40q", o.model), "want", "give the model's name as `muster status` on the orchestrator shows it")
	}
	r, err := rangeOf(o.layers)
	if err != nil {
		return nil, err
	}
	return &node.Offer{Model: o.model, Layers: [2]int{r.Start, r.End}}, nil
}

func (o *nodeOptions) config(std stdio) (node.Config, error) {
	text, addr, found := strings.Cut(o.orchestrator, "@")
	orchestrator, err := id.ParseNodeID(text)
	if err != nil || !found {
		return node.Config{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--orchestrator", "value", o.orchestrator,
			"want", "give ID@HOST:PORT, as `muster serve` prints it").Because(err)
	}
	engine, err := findEngine(o.engine)
	if err != nil {
		return node.Config{}, err
	}
	binary, err := workerBinary()
	if err != nil {
		return node.Config{}, err
	}
	cfg := node.Config{
		KeyPath: o.keyPath(), DataDir: o.data, Listen: o.listen, Advertise: o.advertise,
		Orchestrator: orchestrator, OrchestratorAddr: addr, Pool: o.pool,
		Engine: engine, Binary: binary, DeferWorker: o.deferWorker, Version: version, GiveUp: o.giveUp, Once: o.once,
		Memory: o.memory, ThreadsMost: o.threadsMost,
	}
	if cfg.Offer, err = o.offer(); err != nil {
		return node.Config{}, err
	}
	p := newProgress(std.err)
	cfg.Tell = p.Tell
	if o.log {
		cfg.Log = func(line string) { p.line("%s", line) }
	}
	return cfg, nil
}
