// Package stage controls the one stage that a node may hold: from the order to
// provision it to the proof that nothing of it is left.
//
// A stage is a ratchet:
//
//	         ProvisionAsked, the node available and free
//	empty ---------------------------------------------> preparing   rings leased, a proven worker there
//	  ^                                                      |  Prepared
//	  |                                                      v
//	  |                                                   fetching   the slice of weights lies verified
//	  |                                                      |  WeightsReady
//	  |                                                      v
//	  |                                                   loading    the worker has loaded it
//	  |                                                      |  Loaded
//	  |                                                      v
//	  |                                                  admitting   a real forward, judged; a route at the tracker
//	  |                                                      |  Admitted
//	  |                                                      v
//	  |                                                  connecting  in-edge accepted, out-edge opened
//	  |                                                      |  EdgeJoined, both
//	  |                                                      v
//	  |                                                    ready  --ServeAsked--> serving
//	  |                                                      |                       |
//	  |    a fault or a deadline of any of these (StageFaulted), or TearDownAsked    |
//	  |                                                      v                       |
//	  |                                                 tearing down <---------------+
//	  |                                                      |  quiesce pumps, uninstall rings, stop the
//	  |                                                      |  worker, release leases: each confirmed
//	  |                                                      v
//	  +---------------- the next order -------------------  gone: TornDown
//
// The node's operator may offer a shard: it comes up the same way and then stands, resident and admitted, until a plan
// gives the node a stage:
//
//	OfferAsked ---> preparing, fetching, loading, admitting --Admitted--> offered --RouteLost--> admitting
//	                                                                        |
//	              ProvisionAsked, of just this shard: Adopt                 |   of another: the teardown first
//	  admitting <--Adopted-- preparing <------------------------------------+-------> tearing down ... preparing
//
// An order that comes before the offer stands waits for it, or for its teardown: the offer is not in the way of a plan. An
// offer becomes no stage by itself.
//
// No stage is ready that was not admitted. StageReady and StageFaulted are told once at most, never ready after faulted,
// and neither once the teardown has begun.
//
// TornDown is told only after every part of the teardown was confirmed. A part
// that is overdue is told once as TeardownOverdue and asked again at each
// further deadline: what may still hold memory is never called free.
//
// An order carries the run, the attempt and the boot of the node; words of
// another order fall dead. Who orders is answered always: accepted, or refused
// because the node is at another boot, holds another stage, or is not available,
// in this order, so that the last is said only where nothing else is wrong. A
// dry run is answered the same way and changes nothing.
//
// The node's mailbox owns the one State. The package knows no other node, no
// plan, and of its layers nothing.
package stage
