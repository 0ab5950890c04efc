// Package weights keeps the files of stages: slices of a model, each under the
// address of its content, and the manifests of models. A model that only
// another node has is read from there.
//
// A named cache is a folder:
//
//	slices/KEY.gguf         whole slices
//	slices/KEY.*.part       being written; its writer holds a lock on it
//	manifests/IDENTITY.json digests of a model's tensors
//
// A slice gets its name only when all of it is on the disk, and is read whole
// and compared with its plan before each use. A .part whose lock can be had is
// a dead writer's, so that kill -9 leaves nothing that the next start does not
// sweep; two processes at once write two .part files and the later takes the
// place of the earlier, with the same bytes. A cache without a folder gives no
// names at all: its slices end with the last descriptor of them.
//
// A Remote is the parts of such a model, each an io.ReaderAt over a stream; at
// the other end ServeReads answers from the files of published revisions:
//
//	gguf.ReadParts ──► Remote ──request: part, offset, n──► ServeReads ──► file
//	SlicePlan.Write ─►        ◄──── segments of bytes ─────
//
// What comes is believed only once a tensor's digest is that of the manifest,
// which SlicePlan.Write sees to.
//
// The package decides nothing about models and knows no worker. Whoever asked
// for a Slice owns it and closes it; no goroutine is started.
package weights
