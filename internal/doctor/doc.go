// Package doctor examines a loaded shard by a real forward, and judges it by
// numbers.
//
//	slice ─► reference ─► repeat, sensitive ─► stepwise, roll-back ─► long ─► full context
//	          passages     one text, again       token by token,      more     all slots together,
//	                       and changed           beside a neighbour   than     memory, speed
//	                                                                  a chunk
//
// It reaches the shard as serving does, by records through its rings: chunks as
// large as the recipe's, all of its slots, its whole context. It leaves it as if
// never used: every slot that it opened, in generation 1, is ended.
//
// A figure past its limit is a failed check, and the examination goes on, so
// that one finding is not hidden by another. A worker that dies, hangs or faults
// in the forward ends the examination; what was found until then is kept, and
// the worker is of no further use.
//
// The package knows neither rings nor processes: it is handed a Patient. Why the
// checks are as they are, with what was measured, stands in docs/design/0007.
package doctor
