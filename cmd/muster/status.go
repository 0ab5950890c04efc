package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/fault"
	"muster/internal/orch"
)

// statusWithin bounds the asking of an orchestrator.
const statusWithin = 10 * time.Second

func statusCommand(std stdio) *cobra.Command {
	var asJSON, ofNode bool
	var data string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the pool, its nodes and what stands in the way; or this machine's node",
		Long: "Show the pool, its nodes and what stands in the way, as the orchestrator has it. With --node, or with --data,\n" +
			"show the node of this machine, by what it keeps in its folder: its facts with their times, its latest fault\n" +
			"and what to do, also when it has ended. Where no address is given and no orchestrator answers at the default\n" +
			"one, the node is shown too, if this machine has one.",
		Args: noArguments,
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print one object")
	f.BoolVar(&ofNode, "node", false, "show this machine's node")
	f.StringVar(&data, "data", defaultFolder("node"), "the node's data folder")
	client := apiFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if ofNode || f.Changed("data") {
			if err := needsData(data); err != nil {
				return err
			}
			return showNode(std, data, asJSON)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), statusWithin)
		defer cancel()
		var s orch.Status
		err := client().Status(ctx, &s)
		named := f.Changed("api") || os.Getenv("MUSTER_API") != ""
		if errors.Is(err, fault.GatewayUnreachable) && !named && data != "" {
			if shown := showNode(std, data, asJSON); !errors.Is(shown, fault.NodeStatusMissing) {
				return shown
			}
		}
		switch {
		case err != nil:
			return err
		case asJSON:
			return printJSON(std, s)
		}
		return written(io.WriteString(std.out, statusText(s)))
	}
	return cmd
}

// showNode shows the node of a folder.
func showNode(std stdio, data string, asJSON bool) error {
	l, err := readLocal(data)
	switch {
	case err != nil:
		return err
	case asJSON:
		return printJSON(std, l)
	}
	return written(fmt.Fprint(std.out, localText(l, time.Now())))
}
