//go:build !unix

package arena

import (
	"errors"
	"testing"

	"muster/internal/fault"
)

func TestWhatIsMissingHereSaysSo(t *testing.T) {
	if _, err := Create(1 << 20); !errors.Is(err, fault.PlatformUnsupported) {
		t.Errorf("Create: %v", err)
	}
	if _, _, err := Doorbell(); !errors.Is(err, fault.PlatformUnsupported) {
		t.Errorf("Doorbell: %v", err)
	}
}
