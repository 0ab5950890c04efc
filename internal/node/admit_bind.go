package node

import (
	"context"
	"strings"

	"muster/internal/core/admit"
	"muster/internal/enginedir"
	"muster/internal/fault"
	"muster/internal/tracker/api"
	"muster/internal/wire"
)

// lease is what the tracker answers to a registration and a renewal.
type lease = api.LeaseAnswer

// announced is what the node said of itself when it became available, so that
// a plan could count on it.
type announced struct {
	memory  uint64       // bytes; 0: not measured
	backend admit.Digest // none where the worker was deferred
}

// bind says what the report will be good for.
func (a *admission) bind() error {
	w, n := a.w, a.n
	var err error
	if a.reference, err = n.reference(w); err != nil {
		return err
	}
	a.binding = admit.Binding{
		Purpose: admit.ForStage, Run: w.order.Run, Attempt: w.order.Attempt,
		Pool: a.net.pool(), Epoch: w.asked.GetEpoch(),
		Orchestrator: n.cfg.Orchestrator, Node: a.net.endpoint.ID(), Boot: n.bootID,
		Layers: a.layers(), Depth: w.model.Layers, Referenced: a.reference != nil,
	}
	if w.order.Offer() {
		a.binding.Purpose, a.binding.Attempt = admit.ForOffer, 0
	}
	if a.binding.Revision, err = admit.ParseDigest(w.manifest.Revision); err != nil {
		return fault.New(fault.StageOrderInvalid, component, "what", "its model's revision is no digest").Because(err)
	}
	if a.stamp, err = a.stamped(); err != nil {
		return err
	}
	if a.binding.Digests, err = a.digests(); err != nil {
		return err
	}
	if now := a.binding.Backend; now != w.crew.backend {
		return fault.New(fault.NodeEngineChanged, component, "was", w.crew.backend, "now", now)
	}
	return nil
}

// wanted is what the tracker will want, as far as the node knows it from its
// order and from what it has announced.
func (a *admission) wanted(c admit.Challenge) admit.Want {
	r := a.w.asked.GetRecipe()
	want := admit.Want{
		Binding: a.binding, Challenge: c,
		Context: int(r.GetContext()), Slots: int(r.GetSlots()), ResidentBytes: a.w.announced.memory,
	}
	if b := a.w.announced.backend; !b.IsZero() {
		want.Backend = b
	}
	if a.reference != nil {
		want.Tolerance = a.reference.Tolerance
	}
	return want
}

// renew asks the tracker for more time. The files are read again only where
// they are not as they lay.
func (a *admission) renew(lease admit.Challenge) (api.LeaseAnswer, error) {
	now := a.binding.Digests
	stamp, err := a.stamped()
	if err != nil {
		return api.LeaseAnswer{}, err
	}
	if stamp != a.stamp {
		if now, err = a.digests(); err != nil {
			return api.LeaseAnswer{}, err
		}
		differing, err := a.w.differing(a.w.ctx)
		if err != nil {
			return api.LeaseAnswer{}, err
		}
		if differing > 0 {
			now.Slice = admit.Digest{}
		}
		a.stamp = stamp
	}
	return a.net.tracker.Renew(a.w.ctx, api.RenewRequest{Boot: a.n.bootID, Lease: lease, Digests: now})
}

// digests are those of what is loaded and of what loaded it, as they lie now.
func (a *admission) digests() (d admit.Digests, err error) {
	w := a.w
	d.Recipe = admit.RecipeDigest(w.asked.GetRecipe().Wire())
	if d.Slice, err = w.digest(w.body); err != nil {
		return d, err
	}
	if w.embedding != nil {
		if d.Embedding, err = w.digest(w.embedding); err != nil {
			return d, err
		}
	}
	backend, err := a.n.backend(w.crew.worker.Opened())
	d.Backend = backend.Digest()
	return d, err
}

// digest is the content address of a slice. That the engine was handed just
// that is for the doctor to find.
func (w *work) digest(s *handed) (admit.Digest, error) {
	d, err := admit.ParseDigest(s.plan.Key(w.manifest))
	if err != nil {
		return d, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	return d, nil
}

// differing reads the slices again, as the engine has them mapped, and counts
// the tensors that are not the manifest's.
func (w *work) differing(ctx context.Context) (int, error) {
	all := 0
	for _, s := range w.slices() {
		n, err := s.plan.Differing(ctx, s.File(), s.Size(), w.manifest)
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}

// stamped tells the files of the engine and of the slices from changed ones,
// without reading them.
func (a *admission) stamped() (string, error) {
	stamp, err := enginedir.Stamp(a.n.cfg.Engine)
	if err != nil {
		return "", err
	}
	all := []string{stamp}
	for _, s := range a.w.slices() {
		info, err := s.File().Stat()
		if err != nil {
			return "", fault.New(fault.DoctorSliceUnreadable, workerName).Because(err)
		}
		all = append(all, enginedir.FileStamp(info))
	}
	return strings.Join(all, "\n"), nil
}

// backend is what a worker computes by and on.
func (n *node) backend(o wire.Opened) (admit.Backend, error) {
	b := admit.Backend{Engine: o.Engine, Driver: o.System}
	if len(o.Devices) > 0 {
		d := o.Devices[0]
		b.Device = admit.Device{Kind: d.Kind, Name: d.Name, Description: d.Description}
	}
	found, err := enginedir.Libraries(n.cfg.Engine)
	if err != nil {
		return b, err
	}
	for _, l := range found {
		d, err := admit.ParseDigest(l.Digest)
		if err != nil {
			return b, fault.New(fault.InternalUnexpected, component).Because(err)
		}
		b.Libraries = append(b.Libraries, admit.Library{Name: l.Name, Digest: d})
	}
	return b, nil
}
