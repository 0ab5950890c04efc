package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/reports"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
	"muster/internal/tracker/api"
)

const register = "POST " + api.RegisterPath

// registrations is how often the tracker was asked to register a stage.
func (o *orchestrator) registrations() int {
	n := 0
	for _, line := range o.asked.Lines() {
		if line == register {
			n++
		}
	}
	return n
}

func (o *orchestrator) leases() []admit.Lease {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.granted)
}

// Of a probe's file: its head, and where in it the length of its end stands.
const probeHead, probeFacts = 64, 12

// digestOf is the digest that a probe's file names, "" of none.
func digestOf(probe []byte) string {
	if len(probe) == 0 {
		return ""
	}
	d := sha256.Sum256(probe[probeHead:])
	return hex.EncodeToString(d[:])
}

// spoiled is the built-in probe with the logits of its prompts one token further
// on, and sound for all that can be seen of it.
func spoiled(t *testing.T) []byte {
	t.Helper()
	const vocabulary, exponent = 1280, 2 // of a row: tokens, and bytes before them
	b := bytes.Clone(demo.Probe())
	was := sha256.Sum256(b[probeHead:])
	at := bytes.Index(b[:probeHead], was[:])
	if at < 0 {
		t.Fatal("the probe does not hold its digest where it did")
	}
	end := len(b) - int(binary.LittleEndian.Uint32(b[probeFacts:]))
	for range 2 { // prompts
		logits := b[end-2*vocabulary : end]
		copy(logits, append(bytes.Clone(logits[2:]), logits[:2]...))
		end -= exponent + 2*vocabulary
	}
	now := sha256.Sum256(b[probeHead:])
	copy(b[at:], now[:])
	return b
}

// A stage comes to its route by a challenge, a real forward and one
// registration of just that stage, and only then is it ready.
func TestALoadedStageComesToItsRoute(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, known := range map[string][]byte{"by a reference": demo.Probe(), "by itself": nil} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t, func(o *orchestrator) { o.probe = known })
			n := o.run(o.realConfig())
			n.available(1)
			r := o.plan(n)
			r.form()
			if lines := o.asked.Lines(); !slices.Equal(lines[:2], []string{"POST " + api.ChallengePath, register}) || o.registrations() != 1 {
				t.Errorf("the tracker was asked %v", lines)
			}
			leases := o.leases()
			if len(leases) != 1 {
				t.Fatalf("%d leases", len(leases))
			}
			l := leases[0]
			if l.Node != n.id || l.Boot != n.boot || l.Run != r.run || l.Layers != r.stages[0] || l.Referenced != (known != nil) ||
				l.Revision.String() != r.man.Revision || l.Pool != "test" || l.Recipe != admit.RecipeDigest(recipe) {
				t.Errorf("the lease is of %+v", l.Binding)
			}
			if got, want := len(l.Checks), len(probe.Required(known != nil, true)); got != want {
				t.Errorf("%d checks of %d", got, want)
			}
			if e := latest[event.StageExamined](n); e.Fault != nil || len(e.Checks) != len(l.Checks) {
				t.Errorf("told of its forward: %+v", e)
			}
			r.end()
			if err := n.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// What fails before the registration ends there: the tracker hears of a
// challenge at most, the stage has faulted, and its node stays available.
func TestAStageThatFailsIsNeverRegistered(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, c := range map[string]struct {
		before func(t *testing.T, o *orchestrator, cfg *Config)
		middle func(t *testing.T, cfg Config) // once it is available
		code   fault.Code
		says   string

		examined bool // a forward was run
		anew     bool // the node proves itself anew
	}{
		"its numbers are not the reference's": {
			before: func(t *testing.T, o *orchestrator, _ *Config) { o.probe = spoiled(t) },
			code:   fault.DoctorCheckFailed, says: "reference", examined: true,
		},
		"the reference is of another model": {
			before: func(t *testing.T, o *orchestrator, _ *Config) { o.probe, o.model = demo.Probe(), anotherModel(t) },
			code:   fault.StageOrderInvalid, says: "probe",
		},
		"the engine has changed since": {
			before: func(t *testing.T, _ *orchestrator, cfg *Config) { engineCopy(t, cfg, bytes.Clone) },
			middle: func(t *testing.T, cfg Config) { addLibrary(t, cfg) },
			code:   fault.NodeEngineChanged, says: "engine", anew: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			cfg := o.realConfig()
			cfg.DataDir = t.TempDir()
			c.before(t, o, &cfg)
			n := o.run(cfg)
			n.available(1)
			if c.middle != nil {
				c.middle(t, cfg)
			}
			r := o.begun(n)
			o.until("StageFaulted", func() bool { return o.reported(n.id, r.isFaulted) > 0 })
			if f := r.stageFault(n); f.Code != c.code || !strings.Contains(f.Error()+f.Hint(), c.says) {
				t.Errorf("the stage faulted by %v", f)
			}
			o.heardOfNone(r)
			if kept, _, err := reports.Kept(cfg.DataDir); c.examined && (err != nil || len(kept) != 1 || kept[0].Failed == nil || kept[0].Failed.Code != c.code) {
				t.Errorf("kept: %+v (%v)", kept, err)
			}
			r.end()
			if c.anew {
				n.available(2) // with what it has now
			} else if s := n.status(); s.Phase != "available" {
				t.Errorf("the node is %s", s.Phase)
			}
			if err := n.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// begun is a run of which every stage has been ordered.
func (o *orchestrator) begun(nodes ...*running) *trialRun {
	o.t.Helper()
	r := o.plan(nodes...)
	r.expect()
	for i := range nodes {
		if err := r.provision(i); err != nil {
			o.t.Fatal(err)
		}
	}
	return r
}

// heardOfNone checks that nothing of a run came to the tracker but challenges.
func (o *orchestrator) heardOfNone(r *trialRun) {
	o.t.Helper()
	if o.registrations() != 0 || len(o.leases()) != 0 {
		o.t.Errorf("the tracker was asked %v", o.asked.Lines())
	}
	for _, n := range r.nodes {
		if o.reported(n.id, r.isReady) != 0 || count[event.StageAdmitted](n) != 0 {
			o.t.Error("a stage was ready")
		}
	}
}

// addLibrary makes the engine another one, which can be loaded as the former.
func addLibrary(t *testing.T, cfg Config) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(cfg.Engine, "libllama.v0.4.0.so"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Engine, "libanother.so"), b, 0o700); err != nil {
		t.Fatal(err)
	}
}

// anotherModel is not the built-in one.
func anotherModel(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := randmodel.Generate(&b, randmodel.Config{Layers: 2, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The tracker says no: the stage faults by its reason.
func TestATrackersNoEndsTheStage(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	testkit.Leaks(t)
	o := newOrchestrator(t)
	o.want = func(w *admit.Want) { w.Revision[0]++ }
	n := o.run(o.realConfig())
	n.available(1)
	r := o.begun(n)
	o.until("StageFaulted", func() bool { return o.reported(n.id, r.isFaulted) > 0 })
	if f := r.stageFault(n); f.Code != fault.AdmitRevisionMismatched {
		t.Errorf("the stage faulted by %v", f)
	}
	if o.registrations() != 1 || len(o.leases()) != 0 || o.reported(n.id, r.isReady) != 0 {
		t.Errorf("the tracker was asked %v and gave %d leases", o.asked.Lines(), len(o.leases()))
	}
	r.end()
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// A lease lasts by renewals. One that the tracker ends, and one whose files
// change under it, end the stage.
func TestALeaseThatEndsEndsTheStage(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, c := range map[string]struct {
		hit  func(t *testing.T, o *orchestrator, n *running, cfg Config)
		code fault.Code
	}{
		"the tracker has ended it": {
			hit: func(_ *testing.T, o *orchestrator, n *running, _ Config) {
				o.tracker.NodeLost(n.id, fault.New(fault.NodeSuspected, "test", "name", "n"))
			},
			code: fault.AdmitLeaseUnknown,
		},
		"the engine has changed": {
			hit:  func(t *testing.T, _ *orchestrator, _ *running, cfg Config) { addLibrary(t, cfg) },
			code: fault.AdmitLeaseChanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			cfg := o.realConfig()
			engineCopy(t, &cfg, bytes.Clone)
			n := o.run(cfg)
			n.available(1)
			r := o.plan(n)
			r.form()
			o.until("a renewal", func() bool {
				return slices.Contains(o.asked.Lines(), "POST "+api.RenewPath)
			})
			if o.reported(n.id, r.isFaulted) != 0 {
				t.Errorf("the stage faulted by %v", r.stageFault(n))
			}
			c.hit(t, o, n, cfg)
			o.until("StageFaulted", func() bool { return o.reported(n.id, r.isFaulted) > 0 })
			if f := r.stageFault(n); f.Code != c.code {
				t.Errorf("the stage faulted by %v", f)
			}
			r.end()
			if err := n.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
