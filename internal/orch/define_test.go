package orch

import (
	"slices"
	"testing"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/store"
)

// of is a definition of some nodes of the world, made from an epoch.
func (w *world) of(epoch uint64, nodes ...*fakeNode) store.Pool {
	p := store.Pool{Name: "test", Epoch: epoch}
	for _, n := range nodes {
		p.Nodes = append(p.Nodes, store.Node{ID: idOf(n.key), Name: n.name})
	}
	return p
}

// waitsFor reports whether the pool waits for something of a node.
func (w *world) waitsFor(n *fakeNode) bool {
	s, err := w.Status(w.t.Context())
	return err != nil || slices.ContainsFunc(s.Pool.Blockers, func(b Blocker) bool { return b.Node == idOf(n.key) })
}

// The operator takes a node out of the pool: the run that needs it ends, and the
// next is formed of the others.
func TestARemovedNodeEndsTheRun(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Stages = [2]int{1, 2} }).boot()
	first := w.serving(id.RunID{})
	p, err := w.DefinePool(t.Context(), w.of(1, w.nodes[0]))
	if err != nil || p.Epoch != 2 {
		t.Fatal(p, err)
	}
	w.serving(first)
	end := told[event.RunEnded](w.events)[0]
	mustFault(t, end.Fault, fault.NodeRemoved)
	if s, err := w.Status(t.Context()); err != nil || len(s.Nodes) != 1 || len(s.Run.Stages) != 1 {
		t.Errorf("status %+v, %v", s, err)
	}
	until(t, "the removed node shut out", func() bool { return w.nodes[1].hello("") != nil })
	mustFault(t, w.nodes[1].hello(""), fault.PoolNodeUnknown)
}

// A node that is taken out because it is dead is not waited for: nobody can ask
// it to free its stage.
func TestARemovedNodeThatIsDeadIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.Stages = [2]int{1, 2} }).boot()
	first := w.serving(id.RunID{})
	w.nodes[1].die()
	if _, err := w.DefinePool(t.Context(), w.of(1, w.nodes[0])); err != nil {
		t.Fatal(err)
	}
	w.serving(first)
	until(t, "the removed node forgotten", func() bool { return !w.waitsFor(w.nodes[1]) })
}

// A change that takes nothing from the run leaves it alone.
func TestARunGoesOnThroughChangesThatDoNotTouchIt(t *testing.T) {
	w := newWorld(t, 3, func(c *Config) {
		c.Stages = [2]int{1, 1}
		c.Pool.Nodes = c.Pool.Nodes[:2]
	})
	for _, n := range w.nodes[:2] {
		n.boot(w.Orch)
	}
	run := w.serving(id.RunID{})
	s, err := w.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	busy, idle := w.nodes[0], w.nodes[1]
	if s.Run.Stages[0].Node == idOf(idle.key) {
		busy, idle = idle, busy
	}
	epoch := uint64(1)
	for _, now := range [][]*fakeNode{{busy, idle, w.nodes[2]}, {busy, w.nodes[2]}, {busy}} {
		p, err := w.DefinePool(t.Context(), w.of(epoch, now...))
		if err != nil || p.Epoch != epoch+1 {
			t.Fatal(p, err)
		}
		epoch = p.Epoch
	}
	if text, _, err := w.say(5); err != nil || text == "" {
		t.Errorf("the run said %q (%v)", text, err)
	}
	if now := w.session.Load(); now == nil || now.key.Run != run {
		t.Error("it is another run")
	}
	if ends := told[event.RunEnded](w.events); len(ends) > 0 {
		t.Errorf("the run ended: %v", ends)
	}
}

func TestDefinitionsThatAreRefusedChangeNothing(t *testing.T) {
	w := newWorld(t, 2)
	other, self := w.of(1, w.nodes[0]), w.of(1)
	other.Name = "barn"
	self.Nodes = []store.Node{{ID: w.ID()}}
	twice := w.of(1, w.nodes[0], w.nodes[0])
	for _, c := range []struct {
		p    store.Pool
		code fault.Code
	}{
		{w.of(0), fault.StorePoolChanged},
		{w.of(2, w.nodes[0]), fault.StorePoolChanged},
		{other, fault.PoolUnknown},
		{self, fault.PoolDefinitionInvalid},
		{twice, fault.StorePoolInvalid},
	} {
		_, err := w.DefinePool(t.Context(), c.p)
		mustFault(t, err, c.code)
	}
	want := w.of(1, w.nodes...)
	if got, err := w.Pool(t.Context()); err != nil || !got.Same(want) || got.Epoch != 1 {
		t.Errorf("the pool in force is %+v (%v)", got, err)
	}
	if got, err := w.store.Pool(t.Context(), "test"); err != nil || !got.Same(want) || got.Epoch != 1 {
		t.Errorf("the stored pool is %+v (%v)", got, err)
	}
	if got, err := w.DefinePool(t.Context(), want); err != nil || got.Epoch != 1 {
		t.Errorf("the same again gave %+v (%v)", got, err)
	}
}

// An orchestrator that is told no pool serves the one that is stored, and does
// not guess where there are several.
func TestAPoolThatIsNotNamedIsTheStoredOne(t *testing.T) {
	w := newWorld(t, 1)
	w.end(w.Orch)
	w.cfg.Pool = store.Pool{}
	w.start()
	if p, err := w.Pool(t.Context()); err != nil || p.Name != "test" || len(p.Nodes) != 1 {
		t.Errorf("it serves %+v (%v)", p, err)
	}
	if _, err := w.store.SetPool(t.Context(), store.Pool{Name: "barn"}); err != nil {
		t.Fatal(err)
	}
	w.end(w.Orch)
	_, err := start(t.Context(), w.cfg, spell)
	if f := mustFault(t, err, fault.PoolNameMissing); f.Attr("pools") != "barn, test" {
		t.Errorf("it names %s", f.Attr("pools"))
	}
}
