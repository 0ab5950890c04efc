package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/testkit"
)

// The stub by which tests come to a route without an engine is in neither
// program: Go keeps the names of all packages whose code is linked in.
func TestNoStubIsInAReleasedProgram(t *testing.T) {
	worker := testkit.WorkerBinary(t)
	for _, path := range []string{filepath.Join(filepath.Dir(worker), "muster"), worker} {
		program, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(program, []byte("muster/internal/wire.")) {
			t.Errorf("%s names no package: nothing is shown by what it lacks", path)
		}
		if bytes.Contains(program, []byte("muster/internal/testkit")) {
			t.Errorf("%s holds the test kit", path)
		}
	}
}
