// Package plan places the layers of a model on nodes.
//
//	model facts, nodes with measured memory and speed, constraints
//	      |
//	      v
//	   Place ---> stages: node, [start,end), bytes, time, reason | a fault that says
//	              what was needed and what there was
//
// A plan's stages are contiguous, disjoint and cover all layers; they begin and
// end where the architecture allows a cut; each fits into what its node has
// free, less a reserve, with its weights, KV cache and compute buffers counted.
// Of all such plans it is one whose slowest stage is as fast as possible; among
// those, one with the fewest stages, since each hop costs; among those, one with
// the least time in all.
//
// A stage's time is that of its bytes: a token reads every weight once, so a
// layer of twice the bytes takes twice the time, and the head counts as much as
// its bytes do. The embedding is a look-up and takes none.
//
// Up to 10 nodes without a pin every order of them is looked at. Of more, the
// stages follow one order, the fastest node first, and of more than 64 the
// fastest 64 are looked at: there the plan is the best of that order.
//
// The same input gives the same plan on every machine, in whatever order the
// nodes come: there is no floating point and no map in the way. The package
// knows nothing of readiness: who calls it has a PoolReady, and commits the plan
// by compare-and-set on it.
package plan
