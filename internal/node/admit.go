package node

import (
	"time"

	"muster/internal/core/admit"
	"muster/internal/core/probe"
	"muster/internal/core/stage"
	"muster/internal/doctor"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/machine"
	"muster/internal/reports"
)

// admit is the one way from a loaded shard to a route: the tracker's challenge,
// a real forward, the signed report, the rule by which the tracker will judge
// it, the registration. What fails ends it before the next, so that nothing but
// a report that has passed is ever sent. From then on the lease is kept up.
//
// It holds contracts/startup-admission.md; archtest lets no other package reach
// the tracker's client.
func (n *node) admit(w *work) (stage.Event, error) {
	net, err := n.here()
	if err != nil {
		return nil, err
	}
	a := &admission{n: n, w: w, net: net}
	signed, err := a.examined()
	if err != nil {
		return nil, err
	}
	asked := machine.Boottime()
	lease, err := net.tracker.Register(w.ctx, signed)
	if err != nil {
		return nil, err
	}
	n.cfg.Tell(event.StageAdmitted{Run: w.order.Run, Layers: a.layers(), LastsMillis: lease.LastsMS})
	w.tasks.Go(func() { a.keep(asked, lease) })
	return stage.Admitted{Order: w.order}, nil
}

// admission is a stage on its way to its route, and what the route rests on.
type admission struct {
	n   *node
	w   *work
	net *network

	reference *probe.Reference // nil: nobody knows what the shard must compute
	binding   admit.Binding
	stamp     string // of the files that the binding's digests are of
}

func (a *admission) layers() [2]int {
	r := a.w.layers()
	return [2]int{r.Start, r.End}
}

// examined is a report of this very stage that has passed. What has not is kept
// on this machine and goes no further.
func (a *admission) examined() (admit.Signed, error) {
	none := admit.Signed{}
	if err := a.bind(); err != nil {
		return none, err
	}
	asked := machine.Boottime()
	given, err := a.net.tracker.Challenge(a.w.ctx, a.n.bootID)
	if err != nil {
		return none, err
	}
	findings, err := doctor.Examine(a.w.ctx, newPatient(a.w), a.exam())
	if err != nil {
		return none, err
	}
	ended := machine.Boottime()
	signed, failed := none, findings.Failed()
	if failed == nil {
		signed, failed = a.sign(given.Challenge, asked, findings, ended)
	}
	a.told(findings, failed)
	if failed != nil {
		return none, failed
	}
	return signed, nil
}

// sign makes the report and judges it, as the tracker will.
func (a *admission) sign(c admit.Challenge, asked time.Duration, f doctor.Findings, ended time.Duration) (admit.Signed, *fault.Fault) {
	signed, refused := admit.Sign(a.net.key, a.report(c, f, ended))
	if refused != nil {
		return signed, refused
	}
	now := machine.Boottime()
	return signed, admit.Config{}.Judge(signed, a.wanted(c), admit.Times{Now: now, Issued: asked, Signed: now})
}

// told tells what came of the forward and keeps it on this machine, where `muster
// doctor --last` shows it.
func (a *admission) told(f doctor.Findings, failed *fault.Fault) {
	n, w := a.n, a.w
	n.cfg.Tell(event.StageExamined{
		Run: w.order.Run, Layers: a.layers(), Checks: checksOf(f.Checks), TookMicros: f.TookMicros, Fault: failed,
	})
	if n.cfg.DataDir == "" {
		return
	}
	err := reports.Keep(n.cfg.DataDir, reports.Report{
		At: time.Now(), Model: w.asked.GetModel().GetName(), Revision: w.manifest.Revision,
		Recipe: w.asked.GetRecipe().Wire(), Findings: f, Failed: failed,
	})
	if err != nil {
		n.cfg.Tell(event.ReportUnwritten{Fault: fault.From(err)})
	}
}

// report is what the doctor found, bound to this stage and this challenge.
func (a *admission) report(c admit.Challenge, f doctor.Findings, ended time.Duration) admit.Report {
	loaded := a.w.loaded
	return admit.Report{
		Schema: admit.Schema, Binding: a.binding, Challenge: c, Sequence: a.n.reports.Add(1),
		Checks:   f.Checks,
		Capacity: admit.Capacity{Context: f.Context, Slots: int(a.w.asked.GetRecipe().GetSlots()), ResidentBytes: f.ResidentBytes},
		Speed:    admit.Speed{TokenMicros: loaded.TokenMicros, ChunkMicros: loaded.ChunkMicros, ChunkTokens: loaded.ChunkTokens},
		Age:      machine.Boottime() - ended,
	}
}

// exam is what the doctor is to find of the stage.
func (a *admission) exam() doctor.Exam {
	w := a.w
	e := doctor.Exam{
		Name: workerName, First: w.first(), Last: w.last(), Layers: a.layers(),
		Width: w.model.Width, Vocabulary: w.model.Vocabulary, Experts: w.model.Experts > 0, Recipe: w.asked.GetRecipe().Wire(),
		Reference: a.reference, Verify: w.differing, MemoryPlanned: w.announced.memory,
		CellValues: w.cells, CellBytes: w.loaded.CellBytes,
		TokenTime: time.Duration(w.loaded.TokenMicros) * time.Microsecond,
		Tell:      func(part string) { a.n.progressed(w, stage.Admitting, 0, 0, part) },
	}
	if n := w.loaded.ChunkTokens; n > 0 {
		e.RowTime = time.Duration(w.loaded.ChunkMicros) * time.Microsecond / time.Duration(n)
	}
	return e
}

// unanswered reports whether a fault says that the tracker was not heard, and not
// what it said.
func unanswered(f *fault.Fault) bool {
	return transport(f) || f.Code == fault.TrackerCallOverdue || f.Code == fault.TrackerConnectionLost
}

func checksOf(checks []probe.Check) []event.Check {
	all := make([]event.Check, len(checks))
	for i, c := range checks {
		all[i] = event.Check(c)
	}
	return all
}

// keep renews the lease while what it rests on is as it was, and says when it has
// ended. A stage ends with its lease. An offer outlasts a tracker that is away:
// what that one says when it is back decides, and a lease that it does not know is
// one challenge, one forward and one registration more.
func (a *admission) keep(granted time.Duration, l lease) {
	for {
		select {
		case <-a.w.ctx.Done():
			return
		case <-a.w.handed:
			return // who took the shard over has a route of its own
		case <-time.After(time.Duration(l.RenewMS) * time.Millisecond):
		}
		asked := machine.Boottime()
		renewed, err := a.renew(l.Lease)
		if a.w.ctx.Err() != nil {
			return
		}
		if err == nil {
			granted, l = asked, renewed
			continue
		}
		f := fault.From(err)
		over := machine.Boottime()-granted >= time.Duration(l.LastsMS)*time.Millisecond
		if unanswered(f) && (!over || a.w.order.Offer()) {
			continue // the tracker may be there again
		}
		if f.Code == fault.AdmitLeaseUnknown {
			a.n.tell(worked{stage.RouteLost{Order: a.w.order, Fault: f}})
		} else {
			a.n.tell(worked{stage.StageFailed{Order: a.w.order, Fault: f}})
		}
		return
	}
}
