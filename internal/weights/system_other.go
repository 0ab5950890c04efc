//go:build !linux && !darwin

package weights

import (
	"os"
	"runtime"
	"time"

	"muster/internal/fault"
)

func supported() error {
	return fault.New(fault.PlatformUnsupported, component, "what", "the cache of slices", "platform", runtime.GOOS+"/"+runtime.GOARCH)
}

func lock(*os.File) (bool, error) { return false, supported() }

func full(error) bool { return false }

func syncFolder(string) error { return nil }

func nameless(string) (*os.File, error) { return nil, supported() }

func identity(os.FileInfo) (who string, changed time.Time, ok bool) { return "", time.Time{}, false }
