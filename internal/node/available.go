package node

import (
	"muster/internal/core/boot"
	"muster/internal/machine"
	"muster/internal/wire/controlpb"
)

// available is what the node says of itself: nothing of models, layers or runs.
func (n *node) available(e boot.NodeAvailable) *controlpb.NodeAvailable {
	n.said = announced{}
	m := &controlpb.NodeAvailable{
		Attempt: e.Attempt, WorkerPolicy: controlpb.WorkerPolicy_WORKER_POLICY_PROVEN,
		Versions: &controlpb.Versions{Muster: n.cfg.Version, Platform: platform},
	}
	if net := n.network.Load(); net != nil {
		m.Addresses = net.addresses()
	}
	if e.WorkerDeferred {
		m.WorkerPolicy = controlpb.WorkerPolicy_WORKER_POLICY_DEFERRED
	}
	if c := n.attempt.crew; c != nil {
		o := c.worker.Opened()
		m.Devices, m.Versions.Engine = controlpb.DevicesOf(o.Devices), o.Engine
		n.said.backend = c.backend
		m.Versions.Backend = controlpb.Sum(c.backend)
	}
	if free, ok := machine.MeasureMemory(); ok {
		m.MemoryTotalBytes, m.MemoryAvailableBytes = free.Total, free.Available
		if most := n.cfg.Memory; most > 0 {
			m.MemoryAvailableBytes = min(most, free.Available)
		}
	}
	n.said.memory = m.MemoryAvailableBytes
	return m
}
