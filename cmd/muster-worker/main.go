// Command muster-worker holds llama.cpp and computes one shard of a model. It
// is told everything on its stdin and answers on its stdout, one JSON object a
// line (internal/wire); records travel through the arena it is born with. What
// the engine logs goes to stderr. It ends with its parent.
package main

import (
	"fmt"
	"os"

	"muster/internal/fault"
	"muster/internal/worker/child"
)

func main() {
	c, err := child.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "muster-worker:", err)
		os.Exit(fault.Exit(err))
	}
	os.Exit(newHost(c).run())
}
