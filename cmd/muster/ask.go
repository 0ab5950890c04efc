package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/infer"
)

// apiFlag is the address of the orchestrator that a verb asks.
func apiFlag(cmd *cobra.Command) func() *gateway.Client {
	address := cmd.Flags().String("api", "", "the orchestrator's address, as it printed it at its start (or MUSTER_API)")
	return func() *gateway.Client {
		return gateway.NewClient(cmp.Or(*address, os.Getenv("MUSTER_API"), "127.0.0.1:"+defaultPort))
	}
}

func runCommand(std stdio) *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Have a prompt answered by the pool that is up",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.New(fault.CLIArgumentUnknown, "").Because(fmt.Errorf("%d words where one prompt belongs: put it in quotes", len(args)))
			}
			return nil
		},
	}
	client := apiFlag(cmd)
	o.addSamplingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return ask(cmd.Context(), std, o, client(), args[0]) }
	return cmd
}

func ask(ctx context.Context, std stdio, o *options, c *gateway.Client, prompt string) error {
	if prompt == "" {
		return fault.New(fault.RequestPromptEmpty, "")
	}
	if !utf8.ValidString(prompt) { // JSON would replace what is none
		return fault.New(fault.RequestPromptInvalid, "")
	}
	if err := infer.CheckSampling(o.sampling); err != nil {
		return err
	}
	var text strings.Builder
	to := io.Writer(&text)
	if !o.json {
		to = &echo{to: std.out, first: prompt}
	}
	done, err := c.Run(ctx, gateway.Prompt{Prompt: prompt, Sampling: o.sampling, MaxTokens: o.maxTokens},
		func(piece string) error { return written(io.WriteString(to, piece)) })
	if !o.json && text.Len() == 0 && err == nil {
		err = written(fmt.Fprintln(std.out))
	}
	if err != nil || !o.json {
		return err
	}
	return printJSON(std, struct {
		Text string `json:"text"`
		gateway.Done
	}{text.String(), done})
}

func eventsCommand(std stdio) *cobra.Command {
	var since uint64
	var follow bool
	cmd := &cobra.Command{Use: "events", Short: "Print what happened, an object a line", Args: noArguments}
	cmd.Flags().Uint64Var(&since, "since", 0, "only what came after this sequence")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	client := apiFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := client().Events(cmd.Context(), since, follow, func(e gateway.Event) error {
			return written(fmt.Fprintln(std.out, string(e.Line())))
		})
		if follow && cmd.Context().Err() != nil {
			err = nil // there is no other way to end it
		}
		return err
	}
	return cmd
}

func stopCommand(std stdio) *cobra.Command {
	var leave bool
	cmd := &cobra.Command{Use: "stop", Short: "End the run; no other is formed until `muster form`", Args: noArguments}
	cmd.Flags().BoolVar(&leave, "leave", false, "tell the nodes to leave too")
	client := apiFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := client().Stop(cmd.Context(), leave); err != nil {
			return err
		}
		return written(fmt.Fprintln(std.out, "the run has ended"))
	}
	return cmd
}

func formCommand(std stdio) *cobra.Command {
	cmd := &cobra.Command{Use: "form", Short: "Have runs formed again, after `muster stop` or a formation that was given up", Args: noArguments}
	client := apiFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
		defer cancel()
		if err := client().Form(ctx); err != nil {
			return err
		}
		return written(fmt.Fprintln(std.out, "runs are formed again; `muster status` shows how far the pool is"))
	}
	return cmd
}
