// Package control carries one request and its answer between two nodes: a call
// is one stream, bounded in bytes and in time, and ends in an answer or in a
// typed fault. It knows nothing of what the calls mean, nor of how streams are
// made: they come from whoever composes it with an endpoint.
//
//	caller                                          the peer
//	  │ u32 length │ Request: version, deadline, body  │
//	  ├───────────────────────────────────────────────►│ whole within 5 s, at most 4 MiB
//	  │ end of the writing side                        │ version, then every field looked at
//	  │                                                │ Handler, until the deadline, until
//	  │                                                │ the caller cancels the stream or
//	  │                                                │ the connection ends
//	  │ u32 length │ Reply: fault or body              │
//	  │◄───────────────────────────────────────────────┤ taken off within 10 s
//	  │ end of the writing side                        │
//
// Lengths are little-endian. A call that would have several answers can send
// several frames before the end; none does, so a second frame is refused.
//
// What is refused is said: a half frame, one that is too long, garbage, another
// version or a field that is not sound are answered by a fault that names it. A
// handler that panics is answered by internal.unexpected, its stack is logged,
// and the process lives.
//
// # Deadlines and cancellation
//
// A request carries how long its caller waits, since no two machines have one
// clock. A caller without a deadline waits 30 s; a handler has 10 minutes at
// most. When the caller gives up, it cancels the stream, and the handler's
// context ends with control.call_cancelled as its cause.
//
// # Goroutines
//
// Serve and Call start one each while they wait, and wait for it.
package control
