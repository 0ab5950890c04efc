// Package orch is the orchestrator: it knows which nodes an operator intends,
// forms a pool of them, plans a model on it, leads the run and serves requests.
// It computes no layers.
//
//	nodes ── Hello, Report ─► control ─┐                     ┌─► Ping, Peers, DialBack
//	swim ──── state of each ─► member ─┤                     ├─► Provision, TearDown
//	answers of what was asked ─────────┼─► mailbox ──effects─┼─► edges, server: session
//	requests ── Status, Stop, ... ─────┘  gate, run, plan    └─► journal: store, Tell
//
// The mailbox is one goroutine. It owns the states of core/gate and core/run,
// steps them with whatever arrives, and performs their effects: what needs I/O
// goes to a goroutine of its own, which answers the mailbox with the run,
// attempt, round or boot it was asked for. It never waits for any of them. What
// it holds beside the cores is a ledger of what each boot of each node has said,
// so that the gate can ask for it again.
//
//	PoolReady ─► run: plan ─► commit (gate) ─► recorded (store) ─► Provision each
//	   ▲                                                               │
//	   │                                  every StageReady, both edges joined
//	RunEnded ◄─ TornDown of each ◄─ outcome, once ◄─ serving ◄─────────┘
//
// Requests are served together, as many as the recipe has slots (infer.Server);
// the others wait, up to a bound. One that runs when its run ends gets the run's
// fault; Stop and Complete wait for it first, for a while. After a fault the
// gate forms the pool again, and by policy the next run, once every node has
// freed what it held.
//
// A stage that loses a stream tells so before the node does that lost its
// worker, and before SWIM notices a death. So the fault of an edge is a symptom:
// it waits 600 ms for its cause, and ends the run only where none has come.
//
// Time is told to the cores as what has passed since the start, on the clock
// that counts suspend. A restarted orchestrator trusts no readiness: the pool
// and the journal are what it knows.
//
// Start owns what it made until it returns; Close ends all and waits.
package orch
