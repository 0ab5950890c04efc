package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/enginedir"
	"muster/internal/wire"
	"muster/internal/worker"
)

func engineCommand(std stdio) *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "engine",
		Short: "Show the llama.cpp libraries that are found and what they can compute on",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := inspectEngine(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(std, found)
			}
			return written(io.WriteString(std.out, found.String()))
		},
	}
	cmd.Flags().StringVar(&dir, "engine", "", "folder of the llama.cpp libraries (or MUSTER_ENGINE)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

// findEngine is the folder that a flag or MUSTER_ENGINE names, or the installed
// one, with the links by which it is opened.
func findEngine(named string) (string, error) {
	if named == "" {
		named = os.Getenv("MUSTER_ENGINE")
	}
	dir, err := enginedir.Locate(named, enginedir.Bases()...)
	if err != nil {
		return "", err
	}
	return dir, enginedir.Link(dir)
}

// engineFound is what `muster engine` prints.
type engineFound struct {
	Path      string              `json:"path"`
	Version   string              `json:"version"`
	System    string              `json:"system"`
	Libraries []enginedir.Library `json:"libraries"`
	Devices   []wire.Device       `json:"devices"`
}

// inspectEngine has a worker load the libraries, so that what is shown has been
// tried and not only found.
func inspectEngine(ctx context.Context, named string) (*engineFound, error) {
	dir, err := findEngine(named)
	if err != nil {
		return nil, err
	}
	libraries, err := enginedir.Libraries(dir)
	if err != nil {
		return nil, err
	}
	binary, err := workerBinary()
	if err != nil {
		return nil, err
	}
	w, err := worker.Start(ctx, worker.Spec{
		Name: "engine", Binary: binary, Engine: dir, Boot: 20 * time.Second, LogLevel: 4,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.Stop(stopCtx) // it has told all that was asked
	}()
	o := w.Opened()
	return &engineFound{
		Path: dir, Version: o.Engine, System: o.System,
		Libraries: libraries, Devices: o.Devices,
	}, nil
}

// String is for people.
func (e *engineFound) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "engine   llama.cpp %s\nfolder   %s\n", e.Version, e.Path)
	for _, d := range e.Devices {
		fmt.Fprintf(&b, "device   %s %s: %s, %s of %s free\n", d.Kind, d.Name, d.Description,
			bytesText(int64(d.MemoryFree)), bytesText(int64(d.MemoryTotal)))
	}
	fmt.Fprintf(&b, "system   %s\n", e.System)
	for _, l := range e.Libraries {
		fmt.Fprintf(&b, "library  %s %s\n", l.Digest, l.Name)
	}
	return b.String()
}
