package store_test

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"muster/internal/store"
)

// A store in memory is one like any other, and knows nothing of those before it.
func TestAStoreInMemory(t *testing.T) {
	for range 2 {
		s, err := store.Memory(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if all, err := s.Pools(context.Background()); err != nil || len(all) != 0 {
			t.Errorf("a new store has %+v (%v)", all, err)
		}
		want := set(t, s, twoNodes())
		var calls sync.WaitGroup
		for range 8 { // all through its one connection
			calls.Go(func() {
				if err := s.SetSetting(context.Background(), "key", "value"); err != nil {
					t.Error(err)
				}
				if got, err := s.Pool(context.Background(), want.Name); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("the pool is %+v (%v)", got, err)
				}
			})
		}
		calls.Wait()
		closed(t, s)
		closed(t, s)
	}
}
