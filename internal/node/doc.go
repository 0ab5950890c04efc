// Package node is one machine's daemon: it proves that the machine can serve,
// says so to its orchestrator, and holds at most one stage of a run. It decides
// nothing: cores/boot and cores/stage do, and it knows no plan and no gate.
//
//	         orchestrator                             this process
//	Ping, Peers, Provision, ──► control ──► handler ─┐
//	TearDown, Leave                                  ▼
//	                                            mailbox ── steps ──► boot core, stage core
//	proofs, works ── answers, by attempt and order ──▲ │
//	worker, socket, SWIM ── what was lost ───────────┘ │ performs effects
//	                                                   ├──► proofs (prove_*.go), each a goroutine
//	                                                   ├──► works of the stage (work_*.go)
//	Report ◄── reporter ◄──────────────────────────────┘
//
// # Who owns what
//
//	node      process     mailbox, reporter, both cores' states, one trial slice
//	network   a hello     endpoint, SWIM member, edge table; kept from attempt to attempt
//	                      unless it is what was lost
//	attempt   boot        arena; its end frees what its proofs made
//	crew      a stage     worker with its two rings; the next one is made when the former is freed
//	work      an order    slices, streams and pumps of the stage
//
// One goroutine, the mailbox's, holds the cores' states and steps them, one
// message at a time. It never waits: whatever may take time is a goroutine that
// answers with the attempt or order it was asked for. All of them end with
// their owner, who waits for them.
//
// # Loss
//
//	worker, arena, socket, orchestrator lost ──► boot.ResourceLost
//	    ──► NodeFaulted to the orchestrator, provisioning closed
//	    ──► the stage faulted and torn down, part by part
//	    ──► what the attempt held is freed
//	    ──► after a pause of 0.5 s, doubling to 10 s, the next attempt proves all
//
// A worker is lost by its end, and by two pings in a row that it left unanswered.
//
// An identity that can never be accepted (a damaged key, a pool that does not
// have this node, two machines with one key) ends the process with that fault.
//
// Time is a duration since the process began, on the monotonic clock.
package node
