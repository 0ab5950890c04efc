// Package boot decides when a node is available. It holds
// contracts/node-boot.md, line by line.
//
// A boot attempt is a ratchet:
//
//	idle --AttemptStarted--> proving --every fact holds--> available
//	                            |                             |
//	                            | FactFailed, a deadline,     | ResourceLost, FactFailed
//	                            | ResourceLost: BootFaulted   | NodeFaulted
//	                            v                             v
//	                         faulted <------------------------+
//	                            |
//	                            +--AttemptStarted, a higher attempt--> proving, with no fact held
//
//	LeaveAsked leads from every phase to left, where nothing happens any more.
//
// Facts, and what each waits for. Every proof whose needs hold is started at
// once, so the order is the fastest there is:
//
//	process   arena      endpoint --------+---------+
//	   |        |           |             |         |
//	   |      worker     identity      control      |
//	   |        |           +---------- swim <------+
//	   +--------+-----------+-------------+
//	                  provisioning
//
// A fact is proven by using the thing: the shell does it, on Prove, and answers
// with the attempt that it was asked for. Answers of another attempt fall dead.
// Each proof has its own deadline and its own fault for it.
//
// NodeAvailable comes once per attempt, in the very step that proves
// provisioning, and never after a fault; until then the provisioning handler
// stays closed, and NodeFaulted closes it again.
//
// Only the worker's start may be deferred, by an explicit setting that
// NodeAvailable carries; a stage then proves its worker before it is ready.
//
// The node's mailbox owns the one State. The package knows no layer, model,
// stage, run or plan: a node with an empty cache becomes available.
package boot
