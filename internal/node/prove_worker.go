package node

import (
	"context"
	"fmt"
)

// proveWorker starts the worker of the first stage: it shares the arena, and
// its engine has computed.
func (n *node) proveWorker(ctx context.Context, a *attempt) (string, error) {
	c, err := n.newCrew(ctx, a.arena)
	if err != nil {
		return "", err
	}
	a.proven = c
	o := c.worker.Opened()
	device := "no device"
	if len(o.Devices) > 0 {
		device = o.Devices[0].Description
	}
	return fmt.Sprintf("pid %d, llama.cpp %s on %s", o.PID, o.Engine, device), nil
}
