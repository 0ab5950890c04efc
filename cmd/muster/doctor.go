package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/reports"
	"muster/internal/wire"
)

// doctorOptions are the flags of `muster doctor`.
type doctorOptions struct {
	model, layers   string
	data, engine    string
	recipe          wire.Recipe // 0 and "" where no flag was given
	last, json, log bool

	named func(flag string) bool // the flag was given
}

func doctorCommand(std stdio) *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this machine, or a model's layers on it by a real forward",
		Long: "Examine this machine: engine, worker, devices, memory, shared memory, a small forward. With --model, have a\n" +
			"worker load the layers and compute with them as serving would, and judge what comes out: against the\n" +
			"reference of a preset (see muster model) where the model is one, and against itself. The exit code says\n" +
			"whether all was well. What was found of a model is kept, the last 20 for 30 days; --last shows it.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), std) },
	}
	f := cmd.Flags()
	o.named = f.Changed
	f.StringVar(&o.model, "model", "", "a GGUF file, a preset's name, or tale for the built-in model")
	f.StringVar(&o.layers, "layers", "", "the layers FROM:TO, TO not among them, such as 2:5; all where none are given")
	f.IntVar(&o.recipe.Context, "ctx", 0, "tokens that all slots hold together; 0 takes the preset's, or the model's own, 4096 at most")
	f.IntVar(&o.recipe.Slots, "slots", 0, "sequences served at once; 0 takes the preset's, or 1")
	f.IntVar(&o.recipe.Chunk, "chunk", 0, "prompt tokens computed at once; 0 takes the preset's, or 512")
	f.IntVar(&o.recipe.Threads, "threads", 0, "compute threads; 0 measures what is fastest")
	f.StringVar(&o.recipe.KVType, "kv", "", "type of the KV cache: f16, f32, bf16 or q8_0; the preset's, or f16, where none is given")
	f.StringVar(&o.recipe.FlashAttention, "flash-attention", "", "auto, on or off; the preset's, or auto, where none is given")
	f.IntVar(&o.recipe.GPULayers, "gpu-layers", 0, "layers computed on a GPU")
	f.StringVar(&o.data, "data", defaultFolder("node"), "folder of the reports; one that is named keeps the slices too, and its presets are used")
	f.StringVar(&o.engine, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	f.BoolVar(&o.recipe.Deterministic, "deterministic", false, "as such a recipe is served: one slot a batch, each with cells of its own")
	f.BoolVar(&o.last, "last", false, "show what was last found here, and what before")
	f.BoolVar(&o.json, "json", false, "print one object")
	f.BoolVar(&o.log, "engine-log", false, "print the engine's warnings as they come")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context, std stdio) error {
	if o.last || o.model != "" {
		if err := needsData(o.data); err != nil {
			return err
		}
	}
	switch {
	case o.last:
		return o.showLast(std)
	case o.model == "":
		if o.layers != "" {
			return fault.New(fault.CLIFlagInvalid, "", "flag", "--layers", "value", o.layers, "want", "name the model too, with --model")
		}
		return o.machine(ctx, std)
	}
	s, err := o.open(ctx, newProgress(std.err))
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.examine(ctx)
	if err != nil {
		return err
	}
	if err := reports.Keep(o.data, r); err != nil {
		tell(std.err, err) // what was found matters more
	}
	if o.json {
		err = printJSON(std, r)
	} else {
		err = written(io.WriteString(std.out, reportText(r)))
	}
	if err == nil && r.Failed != nil {
		err = shown{r.Failed}
	}
	return err
}

// reportsShown is what `muster doctor --last --json` prints.
type reportsShown struct {
	Reports []reports.Report `json:"reports"` // the latest first
	Damaged int              `json:"damaged"` // files that could not be read
}

// showLast shows the reports that are kept, and ends as the last one did.
func (o *doctorOptions) showLast(std stdio) error {
	kept, damaged, err := reports.Kept(o.data)
	if err != nil {
		return err
	}
	if o.json {
		err = printJSON(std, reportsShown{kept, damaged})
	} else {
		err = written(io.WriteString(std.out, keptText(kept, damaged, time.Now())))
	}
	if err == nil && len(kept) > 0 && kept[0].Failed != nil {
		err = shown{kept[0].Failed}
	}
	return err
}

// layersOf reads FROM:TO of a model of so many layers, all where it is empty.
func layersOf(text string, layers int) (gguf.Range, error) {
	if text == "" {
		return gguf.Range{Start: 0, End: layers}, nil
	}
	r, err := rangeOf(text)
	if err != nil || r.End > layers {
		return gguf.Range{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--layers", "value", text,
			"want", fmt.Sprintf("give FROM:TO, such as 0:%d for all layers of this model", layers))
	}
	return r, nil
}

// mostLayers is more than any model has.
const mostLayers = 1 << 16

// rangeOf reads FROM:TO.
func rangeOf(text string) (gguf.Range, error) {
	from, to, two := strings.Cut(text, ":")
	start, err := strconv.Atoi(from)
	end, err2 := strconv.Atoi(to)
	if !two || err != nil || err2 != nil || start < 0 || end <= start || end > mostLayers {
		return gguf.Range{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--layers", "value", text,
			"want", "give FROM:TO, TO not among them, such as 2:5")
	}
	return gguf.Range{Start: start, End: end}, nil
}
