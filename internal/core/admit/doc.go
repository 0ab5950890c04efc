// Package admit decides whether a shard may serve: what a capability report
// binds, how it is signed, when it matches what is wanted and is fresh, and
// which routes are live. It holds contracts/startup-admission.md.
//
//	node                                              tracker, or the node itself
//	  | Issue: a challenge, for this node and boot  <-  |
//	  | a real forward of the shard, after it           |
//	  | Sign: the report's canonical bytes          ->  | Verify: schema, shape, signature
//	  |                                                 | Judge: every bound field, every
//	  |                                                 | check, capacity, speed, age
//	  |                                             <-  | Register: the challenge is used
//	  |                                                 | up and a lease is granted
//	  | Renew, with the same digests                ->  | the lease lasts again
//
// The node judges its own report before it sends anything, by the same rule
// that the tracker judges it by again. Whatever is absent, unreadable, unknown
// or late is refused, by a code of its own.
//
// # The book
//
// The Book is the tracker's memory: open challenges, leases, pauses. It is
// never stored, so a tracker that was started anew has given no challenge and
// no lease. A lease ends when it is not renewed, when the node is lost, leaves,
// faults or has another boot, when a digest changes under it, when its run
// ends, when the node gives it back or registers anew. With it every open
// challenge of the node is void: what was measured before an end restores
// nothing.
//
// # Clocks
//
// Instants are durations on a monotonic clock of the caller that counts
// suspend. No wall clock is looked at, and no two clocks are compared: a node
// tells ages, and the tracker knows when it gave the challenge.
//
// One owner holds a Book and performs its effects. The package knows no
// network, worker or file.
package admit
