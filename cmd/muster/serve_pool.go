package main

import (
	"os"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/orch"
	"muster/internal/pooldef"
)

// definition is the pool that the flags name; its nodes are nil where the stored
// ones count.
func (o *serveOptions) definition() (pooldef.Pool, error) {
	nodes, err := nodesOf("--node", o.nodes)
	switch {
	case err != nil:
		return pooldef.Pool{}, err
	case o.poolFile == "":
		return pooldef.Pool{Name: o.pool, Nodes: nodes}, nil
	case len(nodes) > 0:
		return pooldef.Pool{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--pool-file", "value", o.poolFile,
			"want", "give the nodes in the file or by --node, not both")
	}
	p, err := readPoolFile(os.Stdin, o.poolFile, o.pool)
	if p.Nodes == nil {
		p.Nodes = []pooldef.Node{} // a pool without nodes is one too
	}
	return p, err
}

// policy is what follows a loss before commit.
func (o *serveOptions) policy() (orch.Policy, error) {
	p := orch.Policy{Formation: o.formWithin}
	switch {
	case o.loss == gate.Abort.String():
		p.Loss = gate.Abort
	case o.loss != gate.Wait.String():
		return p, fault.New(fault.CLIFlagInvalid, "", "flag", "--on-loss", "value", o.loss, "want", "give wait or abort")
	}
	if o.formWithin < 0 {
		return p, fault.New(fault.CLIFlagInvalid, "", "flag", "--form-within", "value", o.formWithin, "want", "give 0 or more, such as 5m")
	}
	return p, nil
}
