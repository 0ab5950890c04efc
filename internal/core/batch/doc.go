// Package batch decides what goes into the next record of a chain: which slots
// decode a token, which part of which prompt is computed, which slots end.
//
// A request, and the slot it gets:
//
//	Submit --> waiting --> prefilling --> decoding --> ending --> gone, the slot is free
//	              |         chunks of      a token       the end mark goes out,
//	              |         its prompt     at a time     its answer frees the slot
//	              +-- Cancel: gone     Cancel, or an answer that is the last
//
// Next gives one record's items, Answered takes the answer to the oldest record
// under way: a chain answers records in the order in which they were sent, each
// once. Between the two, several records may be under way, so that all stages
// work at once.
//
// # The rules
//
//  1. A slot is used again only after its end has been answered.
//  2. A record has one item a slot, and at most Chunk tokens.
//  3. Ends go into the next record, then decodes, the one that was ready first
//     before the others, then prefill in the room that is left: what a decode
//     may have to wait for is the record before it.
//  4. Who comes first is served first: the queue is in the order of Submit, and
//     so is prefill.
//  5. A chunk of a prompt does not wait for the answer to the one before it. A
//     token does: it is drawn from that answer.
//  6. No more records with decodes are under way than there are stages, and one
//     of them takes no more than its share of the slots that decode. So the
//     slots come to stand in as many groups as there are stages, of even size,
//     and each stage has one to compute; with one stage all slots decode
//     together.
//  7. Who does not take its tokens is decoded no further than Window tokens
//     ahead, and holds up nobody else.
//
// With Alone a record computes for one slot only: the slots take turns, and a
// prompt is cut at the multiples of Chunk, so that the batches of a request are
// the same whatever else is served.
//
// One goroutine owns a Schedule and performs what it says. The package knows no
// tokens but their number.
package batch
