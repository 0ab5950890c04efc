// Package arena is shared memory between processes: one memory file, leases of
// ranges in it, and in each range a ring through which one process streams bytes
// to another. It knows nothing of records, stages or the engine, starts no
// process and decides nothing. A supervisor owns the arena and its leases; the
// processes it spawns map it and attach to the ends they are told.
//
// # Layout
//
//	file      0         one grain (4096)                              size
//	          ├─────────┬──────────────┬─────────────┬───── free ────┤
//	          │ header  │ ring 1       │ ring 3      │               │
//	          │ magic   └──────────────┴─────────────┴───────────────┘
//	          │ version   leased first fit, ids rise and are never reused
//	          │ size
//
//	ring      0           128           512          896        4096
//	          ├───────────┼─────────────┼────────────┼───────────┼─ 2^n ─────┤
//	          │ magic, id,│ producer    │ consumer   │ unused    │ data      │
//	          │ offset,   │ cursor      │ cursor     │           │           │
//	          │ capacity  │ records     │ records    │           │           │
//	          │           │┄┄┄┄┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄│           │           │
//	          │           │ state       │ state      │           │           │
//	          │           │┄┄┄┄┄┄┄┄┄┄┄┄┄│┄┄┄┄┄┄┄┄┄┄┄┄│           │           │
//	          │           │ asleep,     │ asleep,    │           │           │
//	          │           │ wakeAt      │ wakeAt     │           │           │
//
// What two processes write stands 128 bytes apart. There is no pointer in the
// file. Each end works on its own copies of id, capacity and cursors; whatever it
// reads from the file is judged first, and what cannot be is
// arena.ring_corrupted, never an access out of range.
//
// # Ring
//
// Cursors count bytes, modulo 2^64, and only rise. Byte number n lies at
// n modulo capacity.
//
//	     read              written           read + capacity
//	──────┴──── full ─────────┴────── free ────────┴──────
//
//	0 <= written - read <= capacity             at all times
//	producer: copy, then store written          consumer sees bytes before cursor
//	consumer: copy, then store read             producer never overwrites the unread
//
// Every access to the header is a sequentially consistent atomic (sync/atomic),
// so cursors release and acquire the data, and the sleep protocol below holds.
//
// # Sleep
//
// Nobody spins. A doorbell is a pipe; each end waits at one and rings the other.
//
//	sleeper (S)                           waker (W)
//	1 look: nothing to do                 1 store own cursor or state
//	2 wakeAt = peer's cursor wanted       2 asleep(S) = 1 and cursor >= wakeAt(S)?
//	3 asleep = 1                          3 asleep(S): 1 -> 0, by compare-and-set
//	4 look again: nothing to do           4 write one byte, unless the pipe is full
//	5 read the pipe
//	6 go to 1
//
// W1 and S3 are ordered one way or the other. If W1 comes first, S4 sees it. If
// S3 comes first, W2 sees the flag. So no wake-up is lost, in either direction.
// A sleep that was given up, because step 4 found something or its context
// ended, may leave one byte in the pipe; it wakes a later sleep in vain, which
// goes to 1. Such bytes may fill the pipe; then W4 does not wait, for a full pipe
// wakes any sleeper. CloseWrite and Detach ring whatever wakeAt says.
//
// A process that dies at any instruction has either published a byte or not, and
// the kernel closes its ends of the pipes: S5 ends with end of file, S1 looks once
// more, and what was published is still read. Then the end fails with
// arena.ring_closed. This needs that nobody else holds the write end of a pipe:
// the supervisor closes its copies once it has spawned (see Doorbell).
//
// # Ends
//
//	free ──attach──> attached ──CloseWrite──> finished ──Detach──┐
//	 │                   └──────────────Detach──────────────> detached ──Release──> free range
//	 └──Release bars it────────────────────────────────────────┘
//
// The state word holds the ring's id, so an attach to a ring whose range has
// been leased again fails in its compare-and-set. Each end is attached once.
// Release needs both ends detached, never attached, or proven dead.
package arena
