package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"muster/internal/fault"
)

func TestFaultsPageIsUpToDate(t *testing.T) {
	committed, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, page(fault.Catalogue())) {
		t.Error("docs/faults.md is not what the catalogue says: run make generate")
	}
}

func TestAPipeStaysInItsCell(t *testing.T) {
	got := string(page([]fault.Entry{{Code: "arena.map_refused", Kind: fault.Refused, Retry: fault.Later, Says: "a|b", Hint: "c"}}))
	if !strings.Contains(got, `| a\|b | c | refused | later |`) {
		t.Errorf("the row is not whole:\n%s", got)
	}
}
