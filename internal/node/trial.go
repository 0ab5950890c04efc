package node

import (
	"bytes"
	"context"
	"os"
	"sync"

	"muster/internal/demo"
	"muster/internal/gguf"
	"muster/internal/weights"
)

// trial is the small slice by which workers prove their engine: one layer of
// the built-in model, in a file without a name, made at the first need.
type trial struct {
	mu   sync.Mutex
	made *os.File
}

// file is the slice; it is the trial's to close.
func (t *trial) file(ctx context.Context) (*os.File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made != nil {
		return t.made, nil
	}
	b, err := oneLayer(ctx)
	if err != nil {
		return nil, err
	}
	t.made, err = weights.Unnamed(b)
	return t.made, err
}

func (t *trial) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made != nil {
		_ = t.made.Close() // it was only read
	}
}

func oneLayer(ctx context.Context) ([]byte, error) {
	f, man, err := tale(ctx)
	if err != nil {
		return nil, err
	}
	model, err := gguf.Inspect(f)
	if err != nil {
		return nil, err
	}
	plan, err := gguf.PlanSlice(f, model, gguf.Range{Start: 1, End: 2})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = plan.Write(ctx, &b, f, man, nil)
	return b.Bytes(), err
}

// tale is the built-in model.
func tale(ctx context.Context) (*gguf.File, *gguf.Manifest, error) {
	b := demo.Tale()
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), demo.Name)
	if err != nil {
		return nil, nil, err
	}
	man, err := gguf.BuildManifest(ctx, f, nil)
	return f, man, err
}
