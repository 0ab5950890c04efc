package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"muster/internal/chain"
	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/weights"
	"muster/internal/wire"
)

// options are the flags of a verb that serves.
type options struct {
	nodes     int
	cuts      []int
	model     string
	prompt    string
	maxTokens int
	sampling  wire.Sampling
	threads   int
	context   int
	chunk     int
	slots     int
	alone     bool // the recipe is deterministic
	json      bool
	data      string
	engine    string
	log       bool

	prompted func() bool // --prompt was given, be it empty
}

func newOptions() *options { return &options{sampling: infer.Greedy()} }

// addSamplingFlags are those of every verb that has a prompt answered.
func (o *options) addSamplingFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.maxTokens, "max-tokens", 0, "tokens to generate at most; 0 goes on to the end of the context")
	f.Float32Var(&o.sampling.Temperature, "temperature", 0, "0 takes the likeliest token, more varies")
	f.IntVar(&o.sampling.TopK, "top-k", 0, "draw from the K likeliest tokens; 0 from all")
	f.Float32Var(&o.sampling.TopP, "top-p", 1, "draw from the likeliest tokens that hold this much probability")
	f.Float32Var(&o.sampling.MinP, "min-p", 0, "leave out tokens less likely than this share of the likeliest")
	f.Float32Var(&o.sampling.RepeatPenalty, "repeat-penalty", 1, "divide the weight of recent tokens by this; 1 is off")
	f.Uint64Var(&o.sampling.Seed, "seed", 0, "the same seed draws the same tokens")
	f.BoolVar(&o.json, "json", false, "print one object with text, tokens, stages and timings")
}

func (o *options) addFlags(cmd *cobra.Command) {
	o.addSamplingFlags(cmd)
	f := cmd.Flags()
	o.prompted = func() bool { return f.Changed("prompt") }
	f.IntVar(&o.nodes, "nodes", 1, "how many share the model's layers")
	f.IntSliceVar(&o.cuts, "cuts", nil, "layers at which to cut the model, such as 2,5; in place of --nodes")
	f.StringVar(&o.model, "model", demo.Name, "a GGUF file, tale for the built-in model, or with --data the name of a preset in DATA/orchestrator (muster model)")
	f.StringVar(&o.prompt, "prompt", "", "answer this and exit")
	f.IntVar(&o.threads, "threads", 0, "compute threads of each; 0 measures what is fastest, within its share of the processors")
	f.IntVar(&o.context, "ctx", 0, ctxUsage)
	f.IntVar(&o.slots, "slots", 1, slotsUsage)
	f.BoolVar(&o.alone, "deterministic", false, deterministicUsage)
	f.IntVar(&o.chunk, "chunk", 512, "prompt tokens computed at once")
	f.StringVar(&o.data, "data", "", "keep keys, journal and slices in this folder; without it they are made anew and leave nothing behind")
	f.StringVar(&o.engine, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	f.BoolVar(&o.log, "engine-log", false, "print the engine's warnings as they come")
}

// What the flags of a recipe are, wherever a model is served.
const (
	ctxUsage           = "tokens of a request's prompt and answer together; 0 takes the model's own, 4096 at most"
	slotsUsage         = "requests served at once, each with memory for --ctx tokens; others wait"
	deterministicUsage = "give a request the same tokens whatever else is served: one request a batch, which is slower"
)

// programs finds the engine and the worker, after a look at the flags.
func (o *options) programs() (engine, binary string, err error) {
	if err = o.check(); err != nil {
		return "", "", err
	}
	if engine, err = findEngine(o.engine); err != nil {
		return "", "", err
	}
	binary, err = workerBinary()
	return engine, binary, err
}

// parts is how many share the model's layers.
func (o *options) parts() int {
	if len(o.cuts) > 0 {
		return len(o.cuts) + 1
	}
	return o.nodes
}

// check refuses what no chain could be asked, before anything is opened.
func (o *options) check() error {
	for _, c := range []struct {
		flag  string
		value int
	}{{"--max-tokens", o.maxTokens}, {"--threads", o.threads}, {"--ctx", o.context}} {
		if c.value < 0 {
			return fault.New(fault.CLIFlagInvalid, "", "flag", c.flag, "value", c.value, "want", "give 0 or more")
		}
	}
	if err := checkBatch(o.chunk, o.slots); err != nil {
		return err
	}
	switch {
	case o.prompted() && o.prompt == "":
		return fault.New(fault.RequestPromptEmpty, "")
	case o.prompted() && !utf8.ValidString(o.prompt):
		return fault.New(fault.RequestPromptInvalid, "")
	}
	return infer.CheckSampling(o.sampling)
}

// checkBatch refuses 0, which a recipe would take for a figure left open.
func checkBatch(chunk, slots int) error {
	if chunk < 1 {
		return fault.New(fault.RecipeInvalid, "", "field", "chunk", "value", chunk, "want", "give a number from 1 to 65536")
	}
	if slots < 1 || slots > infer.MostSlots {
		return fault.New(fault.RecipeInvalid, "", "field", "slots", "value", slots, "want", fmt.Sprintf("give a number from 1 to %d", infer.MostSlots))
	}
	return nil
}

// checkThreads refuses more threads than this machine has processors.
func checkThreads(threads int) error {
	if most := runtime.NumCPU(); threads > most {
		return fault.New(fault.RecipeInvalid, "", "field", "threads", "value", threads,
			"want", fmt.Sprintf("give a number from 1 to %d, the processors of this machine, or 0 to have it measured", most))
	}
	return nil
}

func (o *options) cacheFolder() string {
	if o.data == "" {
		return ""
	}
	return filepath.Join(o.data, "slices")
}

func (o *options) source() (chain.Model, error) {
	if o.model != demo.Name {
		return chain.Model{Name: o.model, Path: o.model}, nil
	}
	f, err := weights.Unnamed(demo.Tale())
	return chain.Model{Name: demo.Name, File: f}, err
}

// recipe leaves at 0 what the model or a measurement is to say.
func (o *options) recipe() wire.Recipe {
	return wire.Recipe{
		Context: o.context * o.slots, Slots: o.slots, Chunk: o.chunk, Threads: o.threads,
		KVType: "f16", FlashAttention: "auto", Repack: true, Deterministic: o.alone,
	}
}

// workerBinary is muster-worker beside this program.
func workerBinary() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fault.New(fault.WorkerBinaryMissing, "", "path", "unknown").Because(err)
	}
	name := "muster-worker"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fault.New(fault.WorkerBinaryMissing, "", "path", path)
	}
	return path, nil
}
