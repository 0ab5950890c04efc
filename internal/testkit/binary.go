package testkit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// WorkerBinary is the path of muster-worker: the one MUSTER_WORKER_BIN names,
// or one built from this tree, once a test process, into the ignored folder
// out/testkit. Building again what is up to date costs little, so nothing
// needs to be removed.
func WorkerBinary(t testing.TB) string {
	t.Helper()
	if given := os.Getenv("MUSTER_WORKER_BIN"); given != "" {
		return given
	}
	return filepath.Join(built(t), executable("muster-worker"))
}

// MusterBinary is the path of muster, beside WorkerBinary.
func MusterBinary(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(WorkerBinary(t)), executable("muster"))
}

func built(t testing.TB) string {
	t.Helper()
	dir, err := buildBoth()
	if err != nil {
		t.Fatalf("the programs cannot be built: %v", err)
	}
	return dir
}

func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

var buildBoth = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "out", "testkit")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(dir, "lock")) // several test processes build at once
	if err != nil {
		return "", err
	}
	defer unlock()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./cmd/muster", "./cmd/muster-worker")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return dir, nil
})

// moduleRoot is the folder of go.mod above the working directory, which is
// that of the package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}
