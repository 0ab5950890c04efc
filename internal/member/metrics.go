package member

import (
	"sync"

	"github.com/hashicorp/go-metrics"
)

// metricLabel tells members of one process apart in the library's metrics.
const metricLabel = "member"

// listeners are the members that metrics wake. The library counts into
// go-metrics' process-wide instance and takes no other, so there is one sink
// for the process, installed when the first member starts.
var listeners = struct {
	mu      sync.Mutex
	install sync.Once
	wake    map[string]func()
}{wake: map[string]func(){}}

// listen calls wake, which must not block, whenever the member of that name
// counts a change of its view; until the returned function is called.
func listen(name string, wake func()) (stop func()) {
	listeners.install.Do(func() {
		// It fails only where it is asked for runtime metrics.
		_, _ = metrics.NewGlobal(&metrics.Config{FilterDefault: true}, &sink{})
	})
	listeners.mu.Lock()
	defer listeners.mu.Unlock()
	listeners.wake[name] = wake
	return func() {
		listeners.mu.Lock()
		defer listeners.mu.Unlock()
		delete(listeners.wake, name)
	}
}

// sink hears the counters memberlist.msg.{alive,suspect,dead}, which are
// counted under the library's lock just before the table changes, and drops
// all else.
type sink struct{ metrics.BlackholeSink }

// IncrCounterWithLabels implements metrics.MetricSink.
func (*sink) IncrCounterWithLabels(key []string, _ float32, labels []metrics.Label) {
	if len(key) < 2 || key[0] != "memberlist" || key[1] != "msg" {
		return
	}
	for _, l := range labels {
		if l.Name != metricLabel {
			continue
		}
		listeners.mu.Lock()
		wake := listeners.wake[l.Value]
		listeners.mu.Unlock()
		if wake != nil {
			wake()
		}
	}
}
