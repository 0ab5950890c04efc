package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// ContractsDir is the folder of the contracts that the product must hold: the
// one MUSTER_CONTRACTS names, or shared/contracts beside the checkout, where the
// project's own machines have it. A test without them is skipped as Need does.
func ContractsDir(t testing.TB) string {
	t.Helper()
	Need(t, Contracts)
	return findContracts()
}

// findContracts returns "" where there are none.
func findContracts() string {
	dir := os.Getenv("MUSTER_CONTRACTS")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return ""
		}
		dir = filepath.Join(filepath.Dir(root), "shared", "contracts")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}
