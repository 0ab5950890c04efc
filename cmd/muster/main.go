// Command muster pools machines so that together they serve one language model.
// It holds no engine code: muster-worker, beside it, does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"muster/internal/fault"
)

func main() {
	os.Exit(run(os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run is the whole program: it returns the exit code, 0 or 1 to 125.
func run(args []string, std stdio) int {
	ctx, stop := untilAsked()
	defer stop()
	root := rootCommand(std)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if asked := context.Cause(ctx); asked != nil && errors.Is(err, context.Canceled) {
		err = asked
	}
	report(std, cmd, err)
	return fault.Exit(err)
}

// untilAsked ends the context at the first request to stop; the second ends the
// process at once, and the workers with it.
func untilAsked() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that ends is a fault of a write
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup: the end of a terminal is then no request
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		for range 2 {
			select {
			case <-signals:
				if ctx.Err() != nil {
					os.Exit(fault.Exit(fault.New(fault.RunInterrupted, "")))
				}
				cancel(fault.New(fault.RunInterrupted, ""))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

func rootCommand(std stdio) *cobra.Command {
	root := &cobra.Command{
		Use:           "muster",
		Short:         "Pool machines so that together they serve one language model",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fault.New(fault.CLIArgumentUnknown, "").Because(fmt.Errorf("no verb %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagFault(err) })
	root.AddCommand(upCommand(std), workerCommand(std), engineCommand(std), versionCommand(std),
		serveCommand(std), nodeCommand(std), runCommand(std), statusCommand(std), eventsCommand(std), stopCommand(std), formCommand(std),
		poolCommand(std), keyCommand(std), modelCommand(std), doctorCommand(std))
	return root
}

// flagFault is the fault of a flag that could not be read.
func flagFault(err error) error {
	var wrong *pflag.InvalidValueError
	if errors.As(err, &wrong) {
		return fault.New(fault.CLIFlagInvalid, "", "flag", "--"+wrong.GetFlag().Name, "value", wrong.GetValue(),
			"want", "give "+describe(wrong.GetFlag().Value.Type()))
	}
	return fault.New(fault.CLIArgumentUnknown, "").Because(err)
}

// describe says in words what a flag takes.
func describe(kind string) string {
	switch kind {
	case "int", "int64":
		return "a whole number within its range"
	case "uint64":
		return "a whole number from 0"
	case "float32":
		return "a number within its range, such as 0.7"
	case "intSlice":
		return "whole numbers with commas between them"
	}
	return "a " + kind
}

// noArguments refuses words after the flags by a typed fault.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fault.New(fault.CLIArgumentUnknown, "").Because(fmt.Errorf("unexpected %q", args[0]))
	}
	return nil
}
