// Package process tells a process from a later one that was given its pid, and
// locks what one process at a time may use. It knows nothing of what a process
// does.
package process

import "os"

// Mark is a process of this machine, for others to ask after. Within another
// pid namespace than its own it is not found.
type Mark struct {
	PID   int    `json:"pid"`
	Boot  string `json:"boot,omitempty"`  // of the machine; "" where the system has no id of it
	Start uint64 `json:"start,omitempty"` // clock ticks from the machine's boot to its start; 0 where not known
}

// Self is the mark of this process.
func Self() Mark { return Of(os.Getpid()) }
