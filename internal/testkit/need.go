// Package testkit is what tests of several packages share: asking for what a
// machine may lack, the engine, the worker's binary, a leak check. Its
// subpackages are a fake worker and a generator of models. Only tests import it.
package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"muster/internal/enginedir"
)

// Requirement is something a test needs and a machine may lack.
type Requirement string

// The requirements, by the names that MUSTER_REQUIRE takes.
const (
	Root   Requirement = "root"   // user id 0
	CC     Requirement = "cc"     // a C compiler, for cgo
	Engine Requirement = "engine" // the llama.cpp libraries
	Linux  Requirement = "linux"

	// Contracts are files beside the project's own checkouts. "all" leaves them
	// out: nobody can install them, and a clone must be able to check itself.
	Contracts Requirement = "contracts"
)

// Need skips the test where the machine lacks r, and appends a line such as
// "muster/internal/weights TestDiskFull: needs root" to the file named by
// MUSTER_SKIPPED, where set. Where MUSTER_REQUIRE (a comma list of
// requirements, or "all") holds r, the test fails in place of being skipped.
func Need(t testing.TB, r Requirement) {
	t.Helper()
	lack := r.lack()
	if lack == "" {
		return
	}
	required := strings.Split(os.Getenv("MUSTER_REQUIRE"), ",")
	if slices.Contains(required, string(r)) || slices.Contains(required, "all") && r != Contracts {
		t.Fatalf("needs %s, which MUSTER_REQUIRE asks for: %s", r, lack)
	}
	if err := record(t.Name(), r); err != nil {
		t.Fatalf("the skipped test cannot be recorded: %v", err)
	}
	t.Skipf("needs %s: %s", r, lack)
}

// lack says what is missing, "" where nothing is.
func (r Requirement) lack() string {
	switch r {
	case Root:
		if os.Geteuid() != 0 {
			return "the tests do not run as root"
		}
	case CC:
		for _, name := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
			if name == "" {
				continue
			}
			if _, err := exec.LookPath(name); err == nil {
				return ""
			}
		}
		return "no C compiler is found"
	case Engine:
		if _, err := findEngine(); err != nil {
			return err.Error()
		}
	case Linux:
		if runtime.GOOS != "linux" {
			return "this is " + runtime.GOOS
		}
	case Contracts:
		if findContracts() == "" {
			return "no folder shared/contracts beside the checkout, and MUSTER_CONTRACTS names none"
		}
	default:
		return "the test kit does not know it"
	}
	return ""
}

func record(test string, r Requirement) error {
	path := os.Getenv("MUSTER_SKIPPED")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s: needs %s\n", pkg(), test, r)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// pkg is the import path of the package under test.
func pkg() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return os.Args[0]
	}
	return strings.TrimSuffix(info.Path, ".test")
}

// EngineDir is the folder of the llama.cpp libraries, ready to be loaded; a
// test without them is skipped as Need does.
func EngineDir(t testing.TB) string {
	t.Helper()
	Need(t, Engine)
	dir, err := findEngine()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func findEngine() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := enginedir.Locate(os.Getenv("MUSTER_ENGINE"), root)
	if err != nil {
		return "", err
	}
	return dir, enginedir.Link(dir)
}
