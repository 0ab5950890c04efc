// Package member says which nodes are alive, suspect, dead or have left: SWIM,
// by hashicorp/memberlist, over the node's own endpoint. It reports liveness
// and decides nothing: it knows no pool readiness, plan, run or stage. Each
// process has one Member, owned by whoever composes the node or the
// orchestrator.
//
// # Planes
//
//	      memberlist                             endpoint
//	probe, gossip ──► WriteToAddress ──► Send ──► datagram of muster/swim/1
//	                ◄── PacketCh ◄────── Datagram ◄──┘
//	push/pull     ──► DialAddressTimeout ► Open ► stream of muster/swim/1
//	                ◄── StreamCh ◄────── Serve ◄──┘
//
// A member's name is its node id; addresses are the endpoint's business, so
// every member advertises the same meaningless one, and a node that comes back
// at another port is the same node.
//
// # How the true states are seen
//
// The library hides suspect from its users, calls back under its own lock, and
// says nothing when a suspicion is refuted. So its view is read as a peer would
// read it: one end of an in-memory pipe goes to it as an accepted stream, a
// push/pull request that carries no nodes and is no join goes in, and its whole
// table comes out, with state, incarnation and meta of every node.
//
//	metrics memberlist.msg.*  ─┐
//	events of the library     ─┼─► wake ─► read back ─► table ─► facts ─► Config.Facts
//	slow poll                 ─┘  (coalesced)          (diff)
//
// A contract test pins the form of that exchange. Changes that come and go
// between two readings show as a risen incarnation.
//
// # The table
//
//	          ┌──────── refuted, back ────────┐
//	          ▼                               │
//	unknown ─► alive ◄────────────────► suspect ─► dead
//	          │                               │     │
//	          └────────────► left ◄───────────┴─────┘
//	any ─► alive of another boot: the row is that boot's from then on
//
// The library forgets the dead; the table keeps them, and so does the re-join:
// a peer that is not alive is asked again and again, so that halves of a healed
// partition find each other. Within one boot the incarnation that is told never
// falls, rises whenever a node is alive again after it was not, and does not
// rise when the node itself has only changed its meta: a rise means a doubt.
//
// # Goroutines
//
// Start starts two, the watch of the view and the re-join; Join and Leave start
// those they need. Close ends all and waits for them and for every stream that
// the library holds. A goroutine of the library that waits for the answer to a
// probe ends within a probe interval after that; it reaches nothing of ours.
package member
