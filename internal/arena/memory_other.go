//go:build !unix

package arena

import (
	"os"
	"runtime"

	"muster/internal/fault"
)

func supported() error {
	return fault.New(fault.PlatformUnsupported, component, "what", "the arena", "platform", runtime.GOOS+"/"+runtime.GOARCH)
}

func createFile(int64) (*os.File, error) { return nil, supported() }

func mapFile(*os.File, int64) ([]byte, error) { return nil, supported() }

func unmapMemory([]byte) error { return nil }

func reserve(*os.File, int64, int64) error { return supported() }

func giveBack(*os.File, int64, int64) {}

func setNonblock(uintptr) error { return supported() }

func ringOnce(uintptr) bool { return false }
