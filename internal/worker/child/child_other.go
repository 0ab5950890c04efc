//go:build !unix

package child

import (
	"os"
	"runtime"

	"muster/internal/fault"
)

func unsupported() error {
	return fault.New(fault.PlatformUnsupported, component, "what", "a worker process", "platform", runtime.GOOS+"/"+runtime.GOARCH)
}

func watchLifeline() error { return unsupported() }

func dieOfSignals() {}

func takeStdio() (in, out *os.File, err error) { return nil, nil, unsupported() }

// Descriptor is platform.unsupported: descriptors cannot be passed here.
func Descriptor(int, string) (*os.File, error) { return nil, unsupported() }
