//go:build !linux

package enginedir

import (
	"fmt"
	"os"
)

// FileStamp tells a file from a changed one without reading it: its size, and
// the time at which it was written.
func FileStamp(info os.FileInfo) string { return fmt.Sprint(info.Size(), info.ModTime().UnixNano()) }
