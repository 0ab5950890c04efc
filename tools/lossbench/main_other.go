//go:build !linux

// Command lossbench measures what a loss costs, on Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lossbench: it stops processes and cuts links as Linux does, and runs there only")
	os.Exit(1)
}
