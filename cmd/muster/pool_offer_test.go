//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/orch"
)

// What a node's operator offers is its stage in the next plan, and the answers
// stay what they were. What nobody serves ends the node by its fault.
func TestAnOfferIsTheNodesStage(t *testing.T) {
	p := newPool(t, 2)
	s := p.serving()
	want := p.does("run", "--max-tokens", "12", "Once upon a time")
	p.kill("n1")
	p.start("n1", "--model", "tale", "--layers", "3:8")
	s = p.servingAfter(s.Run.Run)
	if st := s.Run.Stages; st[1].Name != "n1" || st[1].Layers != [2]int{3, 8} || !strings.Contains(st[1].Reason, "as its operator offers") {
		t.Errorf("the stages are %+v", st)
	}
	if got := p.does("run", "--max-tokens", "12", "Once upon a time"); got != want {
		t.Errorf("answered %q, before %q", got, want)
	}
	p.shows([]string{"events"}, `"purpose":"offer"`)
	p.does("stop")
	p.nodeIs(p.dir+"/n1", "offering again", func(l localStatus) bool {
		return l.Status.Stage != nil && l.Status.Stage.Offer && l.Status.Stage.Phase == "offered"
	})
	p.shows([]string{"status", "--data", p.dir + "/n1"}, "offer: tale, layers 3 to 7: offered", "its doctor, ", "tale, layers 3 to 7: well")
	p.until("the offer in the pool's status", func(s orch.Status) bool {
		o := s.Nodes[0].Offer
		return o != nil && o.Admitted && o.Layers == [2]int{3, 8}
	})
	p.shows([]string{"status"}, "offers layers 3 to 7: admitted")
	p.kill("n1")
	for flags, code := range map[string]fault.Code{
		"--model other --layers 3:8": fault.OfferModelUnknown,
		"--model tale --layers 3:99": fault.ModelCutRefused,
		"--model tale":               fault.CLIFlagInvalid,
		"--layers 3:8":               fault.CLIFlagInvalid,
		"--model tale --layers 8:3":  fault.CLIFlagInvalid,
	} {
		got := p.run(append([]string{"node", "--orchestrator", p.orchestrator, "--data", p.dir + "/n1", "--listen", "127.0.0.1:0"}, strings.Fields(flags)...)...)
		ended(t, got, code)
	}
}

// until waits until the pool's status is as it should be.
func (p *pool) until(what string, is func(orch.Status) bool) {
	p.t.Helper()
	for end := time.Now().Add(poolWithin); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if got := p.run("status", "--json"); got.exit == 0 && is(object[orch.Status](p.t, got)) {
			return
		}
	}
	p.t.Fatalf("%s did not come: %s", what, p.run("status").stdout)
}
