// Package machine measures this machine: what memory is free for a process of
// ours, its addresses, the time that has passed. It decides nothing.
package machine

// Memory is in bytes. Available is what new processes can use without
// swapping, within the limit of the control group where there is one.
type Memory struct {
	Total     uint64
	Available uint64
}
