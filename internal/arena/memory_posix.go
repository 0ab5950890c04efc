//go:build unix && !linux

package arena

import (
	"os"

	"muster/internal/fault"
)

// createFile makes a temporary file of the size and takes its name away at
// once: it lives as long as its descriptors and maps.
func createFile(size int64) (*os.File, error) {
	f, err := os.CreateTemp("", "muster-arena-")
	if err != nil {
		return nil, fault.New(fault.ArenaCreateRefused, component).Because(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, fault.New(fault.ArenaCreateRefused, component).Because(err)
	}
	if err := f.Truncate(size); err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, sizeRefused(size, err)
	}
	return f, nil
}

// reserve writes zeros over a range nobody uses, so that the disk has room for
// it and a later touch cannot fail.
func reserve(f *os.File, offset, length int64) error {
	zeros := make([]byte, min(length, 1<<20))
	for end := offset + length; offset < end; {
		n, err := f.WriteAt(zeros[:min(end-offset, int64(len(zeros)))], offset)
		if err != nil {
			return sizeRefused(length, err)
		}
		offset += int64(n)
	}
	return nil
}

// giveBack leaves the range to the next lease: a file without a name cannot
// portably be given holes.
func giveBack(*os.File, int64, int64) {}
