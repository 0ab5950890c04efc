//go:build linux

package main

import (
	"os"
	"testing"

	"muster/internal/testkit"
)

// One trial of each kind, of real processes: the answer ends by a fault that
// names the lost node, and the pool serves again. The machine that runs tests
// may be loaded so that it loses a node by itself; then the trial is made again.
func TestEachLossIsMeasured(t *testing.T) {
	const most = 3
	t.Setenv("MUSTER_ENGINE", testkit.EngineDir(t))
	t.Setenv("TMPDIR", t.TempDir())
	s := &settings{threads: 1, trials: 1, binary: testkit.MusterBinary(t)}
	for _, k := range []kind{nodeKill, workerKill, nodeStop} {
		t.Run(k.name, func(t *testing.T) {
			for range most {
				r := newRecord(s)
				if err := tryKind(t.Context(), s, r, k, 2); err != nil {
					t.Fatal(err)
				}
				got := r.trials[0]
				if len(got.wrong) > 0 {
					t.Log(got.line())
					continue
				}
				if !got.served || got.toError <= 0 || got.toToken <= 0 || got.blamed != got.victim || got.victim != "n1" {
					t.Errorf("measured %+v", got)
				}
				return
			}
			t.Errorf("of %d trials none went as it should", most)
		})
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
