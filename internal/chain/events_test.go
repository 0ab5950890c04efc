package chain

import (
	"sync"
	"testing"

	"muster/internal/event"
)

// recorder keeps the events of a chain.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) tell(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// What is told of a start: the model first, each worker and each stage once, the
// chain last, and the stages hold all layers.
func TestEventsTellTheStart(t *testing.T) {
	var r recorder
	cfg := config(t, stories(), 3)
	cfg.Tell = r.tell
	start(t, cfg)
	r.mu.Lock()
	defer r.mu.Unlock()
	count := map[string]int{}
	layers := 0
	for _, e := range r.events {
		count[e.Name()]++
		if st, ok := e.(event.StageLoaded); ok {
			layers += st.Layers[1] - st.Layers[0]
			if st.ResidentBytes == 0 || st.TokenMicros == 0 || st.Threads != 1 {
				t.Errorf("stage without figures: %+v", st)
			}
		}
	}
	if _, ok := r.events[0].(event.ModelInspected); !ok {
		t.Errorf("the first event is %s", r.events[0].Name())
	}
	if last, ok := r.events[len(r.events)-1].(event.ChainReady); !ok || last.Workers != 3 {
		t.Errorf("the last event is %+v", r.events[len(r.events)-1])
	}
	if count["worker.started"] != 3 || count["stage.loaded"] != 3 || layers != 5 || count["slice.ready"] != 5 {
		t.Errorf("told %v, of %d layers", count, layers)
	}
}
