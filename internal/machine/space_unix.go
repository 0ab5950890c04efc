//go:build linux || darwin

package machine

import "golang.org/x/sys/unix"

// Space is the bytes that may be written into a folder.
func Space(dir string) (free uint64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
