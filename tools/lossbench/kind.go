//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// kind is a way of losing something.
type kind struct {
	name string
	aim  time.Duration // the most that any trial should take to the error
	from string        // what the time to the next token begins with
}

var (
	nodeKill   = kind{"node-kill", 1500 * time.Millisecond, "the node's start"}
	workerKill = kind{"worker-kill", 1500 * time.Millisecond, "the kill"}
	nodeStop   = kind{"node-stop", 3 * time.Second, "SIGCONT"}
	linkCut    = kind{"link-cut", 1500 * time.Millisecond, "the link's return"}
)

var allKinds = []kind{nodeKill, workerKill, nodeStop, linkCut}

func kindNames() []string {
	names := make([]string, len(allKinds))
	for i, k := range allKinds {
		names[i] = k.name
	}
	return names
}

func parseKind(name string) (kind, error) {
	for _, k := range allKinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("-kinds: %q is none of %s", name, strings.Join(kindNames(), ", "))
}
