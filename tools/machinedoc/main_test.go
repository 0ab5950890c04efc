package main

import (
	"bytes"
	"os"
	"testing"
)

func TestMachinesPageIsUpToDate(t *testing.T) {
	committed, err := os.ReadFile("../../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, page(machines())) {
		t.Error("docs/machines.md is not what the cores do: run make generate")
	}
}

// A column must show the phase it is headed with, and no kind of event may be
// left out.
func TestThePageShowsEveryPhaseAndEveryEvent(t *testing.T) {
	for _, m := range machines() {
		shown := map[string]bool{}
		for _, r := range m.rows {
			shown[typeName(r.event)] = true
		}
		for _, kind := range m.kinds {
			if !shown[typeName(kind)] {
				t.Errorf("%s: no row shows %s", m.name, typeName(kind))
			}
		}
		for i, phase := range m.phases {
			if next, _ := m.try(i, row{}); next != phase {
				t.Errorf("%s: the column %s shows %s", m.name, phase, next)
			}
		}
	}
}
