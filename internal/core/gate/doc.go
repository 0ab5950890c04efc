// Package gate decides when the intended pool is ready, lets a plan be
// committed only then, and names the first loss that ends a committed run. It
// holds contracts/membership-and-pool-readiness.md, line by line.
//
// It is a gauge: what it says follows from the facts it holds about each
// candidate, and goes both ways. The phases:
//
//	                                  +-- any change in a candidate: the window starts again --+
//	                                  v                                                        |
//	unformed -> waiting <-> settling ----> asking -----------------> ready --------------------+
//	  no pool   a fact is   all facts      the window is over:       every candidate has
//	  defined   missing     hold, the      a nonce is out to         answered, nothing changed
//	                        window runs    each candidate              |
//	                                                                   | CommitAsked, with the epoch,
//	        aborted  <- loss before commit under policy abort,         | round and boots of PoolReady
//	          |         or not ready by the formation deadline         v
//	          | FormationAsked, PoolDefined                        committed -> faulted
//	          v                                                        |  first loss of a required
//	        waiting   <-----------------------------------------------+--   node: RunFaulted, once
//	                                  RunEnded
//
// Facts. A candidate counts when six facts hold of one boot: the orchestrator
// knows it, SWIM sees it alive, it has announced itself available, the
// orchestrator has dialled its endpoint and met the node's key there, it has
// answered something lately, and no second machine claims its id. A fact of
// another boot never counts; a fact of a node that is no candidate changes
// nothing.
//
// Change. A fact's truth, a boot, an endpoint or an incarnation. An age counts
// only when it crosses its bound. A repeated fact is no change.
//
// Boots. The first boot seen of a node is its boot. When another comes, the
// gate asks the holder by AskHolder: if it answers, the id is contested and
// blocked until one of the two has gone; if not, the newcomer takes its place
// and the facts of the former are void. A boot that left or was replaced is
// retired for good.
//
// Time is the caller's monotonic clock, which must count suspend. What is due
// at an instant happens before the event of that instant, so the order of facts
// inside one instant does not matter. A Wake is asked for at least every Beat;
// when it comes late the orchestrator was starved, and until a window has
// passed nothing is ready and no loss is blamed on a node.
//
// Who may call: one goroutine owns a Gate. It performs the effects and decides
// nothing. The package knows no layer, stage, edge or placement.
package gate
