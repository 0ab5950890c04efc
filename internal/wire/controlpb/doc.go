// Package controlpb is the form of control messages on the wire: control.proto,
// the code generated from it (make generate), and the way between it and the
// types of the product. It is a codec: it opens nothing and decides nothing.
//
//	bytes ──Decode──► message ──Check──► ids, ranges and lengths are sound
//	                                        │
//	                     Node, Boot, Run, Edge, Fault.Typed, Recipe.Wire ...
//
// Whoever takes a message from a peer decodes and checks it whole, once, at the
// border (package control does); after that, the conversions cannot fail.
// Decode bounds what a message may make its reader allocate. Check says which
// field of it is not what it must be, in a FieldError.
package controlpb
