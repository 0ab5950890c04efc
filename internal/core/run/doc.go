// Package run leads one run of the orchestrator from its plan to its end. It
// holds the part of contracts/membership-and-pool-readiness.md that begins with
// planning.
//
// A run is a ratchet:
//
//	idle --RunAsked--> planning --PlanMade--> committing --CommitGranted--> provisioning
//	                      |                       |                             |  every StageAccepted
//	                      |                       |                             v
//	                      |                       |                         readying
//	                      |                       |                             |  every StageReady
//	                      |                       |                             v
//	                      |                       |                          serving
//	                      |                       |                             |
//	                      +---- a fault, a stop, -+-- a deadline, completion ---+
//	                                              |  one outcome: RunCompleted, RunFaulted or RunStopped
//	                                              v
//	                                         tearing down --every node confirmed or lost--> done
//
// The outcome is told and recorded once, with the first cause; what comes later
// does not change it. A suspect, dead, faulted or restarted node that the run
// needs ends it by NodeLost, which the gate tells. A run is never placed again:
// its stages are those of its plan, to the end. Whoever wants another run makes
// one, from the gate on.
//
// Every phase but serving has a deadline; serving is watched by whoever counts
// its progress, who tells StageFaulted of the stage that owes.
//
// An answer carries the run, the attempt, and the node's boot; one of another
// falls dead. Teardown is ordered from every node that was ever asked to
// provision, whether it had answered or not, and waits for its confirmation or
// its loss; at its deadline the run is done all the same, and TeardownOverdue
// names who owes.
//
// One goroutine owns a State and performs the effects. The package knows no
// layers: a stage is a place in the plan.
package run
