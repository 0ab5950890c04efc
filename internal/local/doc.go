// Package local runs a whole pool on this machine: the orchestrator in this
// process, each node as a process of its own.
//
//	this process                         n1, n2, …: `muster node --tied`
//	┌──────────────┐   QUIC, loopback    ┌──────────────┐
//	│ orchestrator │ ◄─────────────────► │ node         │──► muster-worker
//	│ Pool         │ ──── stdin ───────► │  key, then   │
//	│              │      held open      │  nothing     │
//	│              │ ◄─── stdout ─────── │  events,     │
//	└──────────────┘                     │  last fault  │
//	                                     └──────────────┘
//
// The nodes never outlive this process: the end of their input makes them
// leave, and where the kernel can (Linux) the death of the parent kills them,
// a stopped one too. Without a data folder nothing of the pool is on a disk:
// keys cross by pipe, the store is in memory, slices have no names. So there is
// nothing to clean up, however this process ends.
//
// A Pool forms, serves one run, and ends by Close or by the first fault: that
// of the run, of the pool's formation, or of a node's process. The end of a
// process is told before what the others say of it.
package local
