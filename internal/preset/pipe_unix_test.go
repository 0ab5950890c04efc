//go:build unix

package preset

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/internal/fault"
)

// A pipe in place of a probe is refused: opening it would wait for who writes.
func TestAPipeIsNoProbe(t *testing.T) {
	data := t.TempDir()
	s := opened(t, data)
	p := added(t, s, "lab")
	path := filepath.Join(data, "presets", "lab", "probe.bin")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Probe(p)
	if f := fault.From(err); err == nil || f.Attr("path") != path {
		t.Errorf("got %v", err)
	}
}
