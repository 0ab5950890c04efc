package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
	"muster/internal/store"
)

// oracle is what a store must hold, in maps and slices.
type oracle struct {
	pools  map[string]store.Pool
	events []int // all ever told; the store keeps the latest
	runs   []store.Run
}

const modelKeeps = 7

// Any sequence of calls, with the store closed and opened again in between,
// gives what maps and slices give.
func TestTheStoreAnswersAsMapsAndSlicesWould(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("25"); err != nil { // each waits for a disk many times
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(checks.DefValue) }()
	}
	root, folders := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		folders++
		dir := filepath.Join(root, strconv.Itoa(folders))
		ctx := context.Background()
		open := func() *store.Store {
			s, err := store.Open(ctx, dir, store.KeepEvents(modelKeeps))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open()
		defer func() { _ = s.Close() }()
		o := &oracle{pools: map[string]store.Pool{}}
		t.Repeat(map[string]func(*rapid.T){
			"set pool":  func(t *rapid.T) { o.setPool(t, s) },
			"append":    func(t *rapid.T) { o.tell(t, s) },
			"begin run": func(t *rapid.T) { o.begin(t, s) },
			"end run":   func(t *rapid.T) { o.end(t, s) },
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open()
			},
			"": func(t *rapid.T) { o.compare(t, s) },
		})
	})
}

func (o *oracle) pool(t *rapid.T) (store.Pool, bool) {
	name := rapid.SampledFrom([]string{"shed", "barn"}).Draw(t, "pool")
	p, ok := o.pools[name]
	p.Name = name
	return p, ok
}

func (o *oracle) setPool(t *rapid.T, s *store.Store) {
	now, known := o.pool(t)
	p := store.Pool{Name: now.Name, Epoch: rapid.SampledFrom([]uint64{0, now.Epoch, now.Epoch, now.Epoch, now.Epoch + 1}).Draw(t, "epoch")}
	repeated := false
	for i, n := range rapid.SliceOfN(rapid.IntRange(1, 4), 0, 3).Draw(t, "nodes") {
		for _, before := range p.Nodes[:i] {
			repeated = repeated || before.ID == nodeID(n)
		}
		p.Nodes = append(p.Nodes, store.Node{ID: nodeID(n), Name: fmt.Sprint("node ", n)})
	}
	got, err := s.SetPool(context.Background(), p)
	switch {
	case repeated:
		want(t, err, fault.StorePoolInvalid)
	case !known && p.Epoch > 0:
		want(t, err, fault.StorePoolUnknown)
	case p.Epoch != now.Epoch:
		want(t, err, fault.StorePoolChanged)
	default:
		want(t, err, "")
		if !known || !reflect.DeepEqual(p.Nodes, now.Nodes) {
			p.Epoch++
		}
		o.pools[p.Name] = p
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("SetPool gives %+v, want %+v", got, p)
		}
	}
}

func (o *oracle) tell(t *rapid.T, s *store.Store) {
	count := rapid.IntRange(0, 10).Draw(t, "events")
	var last uint64
	var err error
	switch n := len(o.events); count {
	case 0:
		last, err = s.Append(context.Background())
	case 1:
		last, err = s.Append(context.Background(), started(n))
	default:
		last, err = s.Append(context.Background(), started(n), started(n+1))
		count = 2
	}
	for range count {
		o.events = append(o.events, len(o.events))
	}
	if want := uint64(len(o.events)); err != nil || last != want && count > 0 {
		t.Fatalf("Append gives %d (%v), want %d", last, err, want)
	}
}

func (o *oracle) begin(t *rapid.T, s *store.Store) {
	p, known := o.pool(t)
	now := p.Epoch
	p.Epoch = rapid.SampledFrom([]uint64{now, now, now + 1}).Draw(t, "epoch")
	r := someRun(rapid.IntRange(0, 5).Draw(t, "run"), p)
	err := s.BeginRun(context.Background(), r)
	switch {
	case !known:
		want(t, err, fault.StorePoolUnknown)
	case p.Epoch != now:
		want(t, err, fault.StorePoolChanged)
	case o.find(r) != nil:
		want(t, err, fault.StoreRunRepeated)
	default:
		want(t, err, "")
		o.runs = append(o.runs, r)
	}
}

func (o *oracle) end(t *rapid.T, s *store.Store) {
	r := store.Run{ID: runID(rapid.IntRange(0, 5).Draw(t, "run"))}
	outcome := store.Outcome{Result: rapid.SampledFrom([]store.Result{store.Completed, store.Stopped}).Draw(t, "result"), Ended: noon}
	err := s.EndRun(context.Background(), r.ID, outcome)
	switch known := o.find(r); {
	case known == nil:
		want(t, err, fault.StoreRunUnknown)
	case known.Outcome != nil:
		want(t, err, fault.StoreOutcomeRecorded)
	default:
		want(t, err, "")
		known.Outcome = &outcome
	}
}

func (o *oracle) find(r store.Run) *store.Run {
	for i := range o.runs {
		if o.runs[i].ID == r.ID {
			return &o.runs[i]
		}
	}
	return nil
}

// compare reads all that the store holds.
func (o *oracle) compare(t *rapid.T, s *store.Store) {
	ctx := context.Background()
	pools, err := s.Pools(ctx)
	if err != nil || len(pools) != len(o.pools) {
		t.Fatalf("there are %d pools (%v), want %d", len(pools), err, len(o.pools))
	}
	for _, p := range pools {
		if !reflect.DeepEqual(p, o.pools[p.Name]) {
			t.Fatalf("the pool is %+v, want %+v", p, o.pools[p.Name])
		}
	}
	after := rapid.IntRange(0, len(o.events)+1).Draw(t, "after")
	entries, err := s.Since(ctx, uint64(after), 100)
	first := max(after, len(o.events)-modelKeeps) // events before it are skipped or removed
	if err != nil || len(entries) != max(0, len(o.events)-first) {
		t.Fatalf("after event %d of %d there are %d (%v)", after, len(o.events), len(entries), err)
	}
	for i, e := range entries {
		if e.Sequence != uint64(first+i+1) {
			t.Fatalf("event %d has the sequence %d", first+i+1, e.Sequence)
		}
	}
	unfinished := 0
	runs, err := s.Runs(ctx, 100)
	if err != nil || len(runs) != len(o.runs) {
		t.Fatalf("there are %d runs (%v), want %d", len(runs), err, len(o.runs))
	}
	for i, r := range runs {
		if want := o.runs[len(runs)-1-i]; !reflect.DeepEqual(r, want) {
			t.Fatalf("the run is %+v, want %+v", r, want)
		}
		if r.Outcome == nil {
			unfinished++
		}
	}
	if open, err := s.UnfinishedRuns(ctx); err != nil || len(open) != unfinished {
		t.Fatalf("%d runs are unfinished (%v), want %d", len(open), err, unfinished)
	}
}

// want checks the code of an error, "" for none.
func want(t *rapid.T, err error, code fault.Code) {
	t.Helper()
	if code == "" && err != nil || code != "" && !errors.Is(err, code) {
		t.Fatalf("got %v, want %q", err, code)
	}
}
