package reference

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// peaks watches the children of this process until ctx ends and returns the most
// resident bytes that any of them had.
func peaks(ctx context.Context) (most uint64) {
	for ctx.Err() == nil {
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid())) // the pattern is sound
		for _, path := range all {
			pids, _ := os.ReadFile(path) // the thread may have ended
			for _, pid := range strings.Fields(string(pids)) {
				most = max(most, peakOf(pid))
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return most
}

// peakOf is the high-water mark of a process, 0 where it has ended.
func peakOf(pid string) uint64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kib uint64
	if _, err := fmt.Sscan(line, &kib); err != nil {
		return 0
	}
	return kib << 10
}

// A model of three times the layers takes no more memory: at any time one layer is
// held.
func TestAReferenceTakesTheMemoryOfOneLayer(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	var most []uint64
	var layer int64
	for _, layers := range []int{2, 6} {
		cfg, m := config(t, random(t, randmodel.Config{Layers: layers, Width: 512, FFN: 2048, Seed: 3}))
		layer = 0
		for _, tensor := range cfg.Source.Tensors {
			if strings.HasPrefix(tensor.Name, "blk.0.") {
				layer += tensor.Size
			}
		}
		ctx, over := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() { most = append(most, peaks(ctx)) })
		made(t, cfg, m)
		over()
		watch.Wait()
	}
	if layer < 8<<20 || most[0] < uint64(layer) {
		t.Fatalf("a layer has %d bytes, the most held was %d", layer, most[0])
	}
	if most[1] > most[0]+uint64(layer) {
		t.Errorf("with 2 layers of %d bytes each %d are held, with 6 of them %d", layer, most[0], most[1])
	}
	t.Logf("a layer of %d bytes: %d held of 2, %d of 6", layer, most[0], most[1])
}
