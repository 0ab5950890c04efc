// Package endpoint reaches other nodes by their id: QUIC over one UDP port,
// mutual TLS 1.3 on self-signed ed25519 certificates, one connection for each
// pair of peer and protocol. It knows nothing of pools, runs or of what the
// streams carry; who may connect is told by Permit.
//
// # A connection
//
//	dialler                                    acceptor
//	  │ ClientHello, ALPN = protocol  ─────────►  │ too many? refused before any work
//	  │ ◄───────────── certificate of the acceptor│
//	  │ key = the id dialled? else end            │
//	  │ certificate of the dialler    ─────────►  │ exactly one, ed25519, permitted
//	  │                                           │ for this protocol? else end
//	  │ ◄───────────────────────────────── hello  │ one byte on the first uni-stream
//	  │ streams and datagrams, both ways ◄─────►  │
//
// A TLS 1.3 client is done before the server has looked at its certificate;
// the hello tells the dialler that it was let in, so that a refusal is a fault
// of the dial and not of the first call.
//
// # Which connection is used
//
// A certificate is made once an Open, with a random serial number: it names
// the process behind the id. Of several connections with one peer
//
//	another certificate, later     a new process: new streams go to it, by
//	                               whatever protocol it came
//	crossed dials of one process   the one dialled by the smaller id stays; the
//	                               other is closed by its dialler once idle
//	dialled with ...At             used for its own stream only, both ways
//
// # Kinds of uni-streams
//
// The first byte of a uni-stream says what it is: 1 hello, 2 a stream of the
// protocol, 3 one datagram that was too large to be one. Streams in both
// directions have no such byte, so that a call costs no packet more.
//
// # Bounds
//
// Handshakes in progress, connections in all, from strangers and of one peer,
// streams of one connection (a peer beyond it waits), datagrams waiting to be
// sent, time of a handshake, silence of a peer, life of a stranger's
// connection: all are in Config, Limits or beside the constant.
//
// # Limits of the library
//
// Its congestion control is NewReno: on a lossy wide link one connection is
// slow for large records. QUIC_GO_DISABLE_GSO=1 in the environment helps where
// a network card breaks batches of packets.
//
// # Goroutines
//
// Open starts an acceptor and a sweeper; each connection has up to four, each
// served stream one, each dial and each queue of datagrams one while it has
// work. All end by Close, which waits for them.
package endpoint
