// Package tracker keeps the routes of a pool: it gives challenges to nodes,
// judges the reports that answer them and grants leases, by internal/core/admit,
// over HTTP on the streams of an endpoint (internal/tracker/api). It knows
// nothing of runs, plans or membership: its owner says what is wanted of a node
// and tells when one is lost.
//
//	peer ---stream---> Serve ---> http.Server ---> handler ---> Book, behind a mutex
//	                                                 |            | effects, in order
//	                                          Owner.Wanted    Owner.Tell
//
// Whoever asks has proven its key to the endpoint and was permitted there;
// nothing a request says of its node is believed beside that key.
//
// Bounds. A body has 64 KiB, a head 16 KiB; each must come, and each answer be
// taken, within 10 s. Requests of a node are counted, open challenges too, and
// a node that is refused again and again waits (admit.Config). How many streams
// a peer may have at once is the endpoint's to bound: 8 are plenty.
//
// The book lives in memory alone. A tracker that was started anew knows no
// challenge and no lease.
//
// Goroutines: net/http starts one for each stream, which Serve waits for; Run
// is the caller's own and ends leases whose time is over.
package tracker
