// Package edge carries object records from a ring to a stream and from a
// stream to a ring. It decides nothing about stages or runs, opens no
// connection and knows no transport: whoever composes a node hands it streams
// and rings through the small interfaces declared here, and owns each pump by
// the context it gives.
//
// # On the wire
//
//	0        4      6      8          24         40       44       48
//	┌────────┬──────┬──────┬──────────┬──────────┬────────┬────────┐
//	│magic 4 │ver. 2│size 2│ run 16   │ edge 16  │attempt4│  0  4  │ preamble
//	├────────┴──────┴──────┴──────────┴──────────┴────────┴────────┤
//	│ object records (internal/wire), sequence 0, 1, 2, ...        │
//	├────────┬──────┬──────┬──────────┬────────────────────────────┘
//	│magic 4 │ver. 2│  0 2 │records 8 │ then the stream's own end      mark
//	└────────┴──────┴──────┴──────────┘
//
// A stream that ends without the mark was cut, however cleanly its transport
// closed it.
//
// # Pumps
//
//	ring ── Source ──► Out ──► Sender ~~~ Receiver ──► In ──► Sink ── ring
//	                    │                              │
//	                    └── one record at a time ──────┘
//	   idle ──first byte──► inside ──head judged──► passing ──last byte──► idle
//	     │                    │                        │
//	     │ source's end       │ silent for Within      │ sink full: waits for as
//	     ▼                    ▼                        ▼ long as it takes
//	   ended               faulted                  backpressure
//
// Out and In are the same pump: they judge header, table, kind, sequence and
// limits of each record before a byte of it goes on, and pass it on as it
// lies. A record of up to a window (256 KiB) goes on whole; a larger one flows
// through in pieces. So a pump holds at most a window, or the largest head that
// its limits allow; the rest of what is in flight is bounded by the ring's
// capacity and the transport's window, and a full sink stops the source.
//
// # Time
//
// Between records a pump waits for as long as its context lives. Inside a
// record its source may be silent for Within at most, and the whole record may
// take Within and what its size takes at slowRate. Time spent on a full sink
// does not count: who is full is another's fault, and a watchdog that reads the
// Meter tells whose.
//
// # Ends
//
// When Out or In has returned, nothing of it touches ring or stream any more:
// the timer is stopped, the watcher has been waited for, the stream is closed
// or cancelled. A context that ends is no fault. Faults of a ring come through
// as the arena tells them, since only the ring's owner knows why it closed; all
// others are of the family edge and name edge and peer.
//
// # Arrivals
//
// A Table holds the edges that a process expects, and routes streams that
// arrive by their preamble:
//
//	Expect ──► expected ──stream of this peer, run, attempt──► taken
//	               └───────────── Close, or its context ends ──┴──► forgotten
//
// A stream that comes before its edge is expected waits a short while, since
// two nodes hear of one run at different times. Whatever else comes is refused.
package edge
