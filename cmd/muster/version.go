package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the build from the state of the repository.
var version = "development"

func versionCommand(std stdio) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this build",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return written(fmt.Fprintf(std.out, "muster %s %s/%s\n", version, runtime.GOOS, runtime.GOARCH))
		},
	}
}
