// Command randmodel writes a model with random weights, for measuring and for
// trying things out:
//
//	go run ./tools/randmodel -preset 250m random-250m.gguf
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	path, c, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = randmodel.GenerateFile(path, c)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, fault.From(err).Hint())
		return fault.Exit(err)
	}
	return 0
}

func parse(args []string, stderr io.Writer) (string, randmodel.Config, error) {
	var c randmodel.Config
	flags := flag.NewFlagSet("randmodel", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "randmodel [flags] FILE writes a model with random weights. 0 is a small default.")
		flags.PrintDefaults()
	}
	preset := flags.String("preset", "", "start from a named shape: 250m")
	flags.Func("arch", strings.Join(gguf.Architectures(), ", "), func(s string) error { c.Architecture = s; return nil })
	flags.IntVar(&c.Layers, "layers", 0, "layers")
	flags.IntVar(&c.Width, "width", 0, "floats of a row")
	flags.IntVar(&c.FFN, "ffn", 0, "width of the feed-forward part")
	flags.IntVar(&c.Heads, "heads", 0, "attention heads")
	flags.IntVar(&c.KVHeads, "kv-heads", 0, "heads of keys and values")
	flags.IntVar(&c.HeadDim, "head-dim", 0, "floats of a head")
	flags.IntVar(&c.Vocabulary, "vocabulary", 0, "tokens")
	flags.StringVar(&c.Type, "type", "", "type of the matrices: "+strings.Join(randmodel.Types(), ", "))
	flags.BoolVar(&c.Tied, "tied", false, "use the embedding as the head")
	flags.IntVar(&c.Experts, "experts", 0, "experts a layer")
	flags.IntVar(&c.Context, "ctx", 0, "tokens it claims to be trained for")
	flags.Uint64Var(&c.Seed, "seed", 0, "seed of the weights")
	if err := flags.Parse(args); err != nil {
		return "", c, usage(err)
	}
	if *preset != "" {
		p, ok := randmodel.Preset(*preset)
		if !ok {
			return "", c, fault.New(fault.CLIFlagInvalid, "randmodel", "flag", "-preset", "value", *preset, "want", "the preset there is: 250m")
		}
		c = p
		if err := flags.Parse(args); err != nil { // flags given outweigh the preset
			return "", c, usage(err)
		}
	}
	if flags.NArg() != 1 {
		return "", c, usage(errors.New("one file is wanted"))
	}
	return flags.Arg(0), c, nil
}

func usage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return fault.New(fault.CLIArgumentUnknown, "randmodel").Because(err)
}
