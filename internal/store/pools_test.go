package store_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/store"
)

// twoNodes is a pool that is not stored yet.
func twoNodes() store.Pool {
	return store.Pool{Name: "shed", Nodes: []store.Node{
		{ID: nodeID(2), Name: "beech", Addresses: []string{"10.0.0.2:6878", "[fd00::2]:6878"}},
		{ID: nodeID(1)},
	}}
}

func set(t testing.TB, s *store.Store, p store.Pool) store.Pool {
	t.Helper()
	p, err := s.SetPool(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPoolIsKeptAsItWasGiven(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	want := twoNodes()
	p := set(t, s, want)
	want.Epoch = 1
	set(t, s, store.Pool{Name: "empty"})
	closed(t, s)

	s = opened(t, dir)
	if !reflect.DeepEqual(p, want) {
		t.Errorf("the stored pool is %+v, want %+v", p, want)
	}
	all, err := s.Pools(context.Background())
	if err != nil || !reflect.DeepEqual(all, []store.Pool{{Name: "empty", Epoch: 1}, want}) {
		t.Errorf("the pools are %+v (%v)", all, err)
	}
}

func TestTheEpochRisesWithEachChangeAndOnlyThen(t *testing.T) {
	s := opened(t, t.TempDir())
	p := set(t, s, twoNodes())
	if same := set(t, s, p); same.Epoch != 1 {
		t.Errorf("nothing was changed, and the epoch is %d", same.Epoch)
	}
	p.Nodes[1].Addresses = []string{"10.0.0.1:6878"}
	if p = set(t, s, p); p.Epoch != 2 {
		t.Errorf("an address was added, and the epoch is %d", p.Epoch)
	}
	p.Nodes[0], p.Nodes[1] = p.Nodes[1], p.Nodes[0]
	if p = set(t, s, p); p.Epoch != 3 {
		t.Errorf("the order was changed, and the epoch is %d", p.Epoch)
	}
	p.Nodes = nil
	if p = set(t, s, p); p.Epoch != 4 {
		t.Errorf("the nodes were removed, and the epoch is %d", p.Epoch)
	}
}

func TestAChangeOfAnotherEpochIsRefused(t *testing.T) {
	s := opened(t, t.TempDir())
	ctx := context.Background()
	_, err := s.SetPool(ctx, store.Pool{Name: "shed", Epoch: 1})
	wantFault(t, err, fault.StorePoolUnknown)
	p := set(t, s, twoNodes())
	for _, epoch := range []uint64{0, 2, 1 << 63} {
		p := store.Pool{Name: "shed", Epoch: epoch}
		_, err := s.SetPool(ctx, p)
		if f := wantFault(t, err, fault.StorePoolChanged); f.Attr("epoch") != "1" {
			t.Errorf("at epoch 1, this was said: %v", f)
		}
	}
	if now, err := s.Pool(ctx, "shed"); err != nil || !reflect.DeepEqual(now, p) {
		t.Errorf("refused changes left %+v (%v)", now, err)
	}
	_, err = s.Pool(ctx, "barn")
	wantFault(t, err, fault.StorePoolUnknown)
}

func TestOfChangesAtOneEpochOneIsTaken(t *testing.T) {
	s := opened(t, t.TempDir())
	p := set(t, s, twoNodes())
	const writers = 8
	taken, refused := make(chan store.Pool, writers), make(chan error, writers)
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			mine := store.Pool{Name: p.Name, Epoch: p.Epoch, Nodes: []store.Node{{ID: nodeID(100 + n)}}}
			if now, err := s.SetPool(context.Background(), mine); err != nil {
				refused <- err
			} else {
				taken <- now
			}
		})
	}
	all.Wait()
	close(refused)
	if len(taken) != 1 {
		t.Fatalf("%d changes of epoch 1 were taken", len(taken))
	}
	for err := range refused {
		wantFault(t, err, fault.StorePoolChanged)
	}
	if now, err := s.Pool(context.Background(), "shed"); err != nil || !reflect.DeepEqual(now, <-taken) {
		t.Errorf("the pool is %+v (%v), not what was taken", now, err)
	}
}

func TestAPoolThatCannotBeIsRefused(t *testing.T) {
	s := opened(t, t.TempDir())
	for says, p := range map[string]store.Pool{
		"it has no name":          {Nodes: twoNodes().Nodes},
		"has no id":               {Name: "shed", Nodes: []store.Node{{Name: "oak"}}},
		"two nodes have the id":   {Name: "shed", Nodes: []store.Node{{ID: nodeID(1), Name: "oak"}, {ID: nodeID(1), Name: "elm"}}},
		"two nodes have the name": {Name: "shed", Nodes: []store.Node{{ID: nodeID(1), Name: "oak"}, {ID: nodeID(2), Name: "oak"}}},
	} {
		_, err := s.SetPool(context.Background(), p)
		if f := wantFault(t, err, fault.StorePoolInvalid); !strings.Contains(f.Error(), says) {
			t.Errorf("%q does not say %q", f, says)
		}
	}
	if all, err := s.Pools(context.Background()); err != nil || len(all) > 0 {
		t.Errorf("refused pools left %+v (%v)", all, err)
	}
	both := store.Pool{Name: "barn", Nodes: twoNodes().Nodes}
	set(t, s, twoNodes())
	if _, err := s.SetPool(context.Background(), both); errors.Is(err, fault.StorePoolInvalid) {
		t.Errorf("a node may be in two pools, and this was said: %v", err)
	}
}
