package node

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit"
	"muster/internal/weights"
)

// The real worker finds a real engine that is not what it must be: the node
// says which, is never available, and nothing is left.
func TestARealEngineThatIsNotWhatItMustBe(t *testing.T) {
	testkit.Need(t, testkit.Engine)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, c *Config)
		inner func(t *testing.T, n *node)
		code  fault.Code
	}{
		"its libraries are missing": {spoil: func(t *testing.T, c *Config) { c.Engine = t.TempDir() }, code: fault.EngineMissing},
		"it is of another version":  {spoil: otherVersion, code: fault.EngineVersionMismatched},
		"it is cut off":             {spoil: cutOff, code: fault.EngineLoadFailed},
		"its forward gives no numbers": {inner: func(t *testing.T, n *node) {
			f, err := weights.Unnamed(withoutNumbers(t))
			if err != nil {
				t.Fatal(err)
			}
			n.trial.made = f
		}, code: fault.StageRowsNotFinite},
		"its forward has no weights": {inner: func(t *testing.T, n *node) {
			f, err := weights.Unnamed([]byte("GGUF"))
			if err != nil {
				t.Fatal(err)
			}
			n.trial.made = f
		}, code: fault.StageLoadFailed},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t)
			cfg := o.realConfig()
			if c.spoil != nil {
				c.spoil(t, &cfg)
			}
			n := o.begin(cfg, true, func(n *node) {
				if c.inner != nil {
					c.inner(t, n)
				}
			})
			n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
			if f := latest[event.NodeFaulted](n); f.Fact != boot.Worker.String() || f.Fault.Code != c.code || f.Fault.Hint() == "" {
				t.Errorf("%s faulted: %v", f.Fact, f.Fault)
			}
			if err := n.end(); err != nil {
				t.Error(err)
			}
			if count[event.NodeBecameAvailable](n) != 0 || o.reported(n.status().Node, isAvailable) != 0 {
				t.Error("the node was available")
			}
		})
	}
}

// engineCopy is the engine's folder with one library of its own bytes.
func engineCopy(t *testing.T, c *Config, change func([]byte) []byte) {
	t.Helper()
	const library = "libllama.v0.4.0.so"
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(c.Engine)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, library)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o700); err != nil {
		t.Fatal(err)
	}
	c.Engine = dir
}

func otherVersion(t *testing.T, c *Config) {
	engineCopy(t, c, func(b []byte) []byte {
		older := bytes.ReplaceAll(b, []byte("0.4.0-dev"), []byte("0.3.9-dev"))
		if bytes.Equal(older, b) {
			t.Fatal("the library holds no version to change")
		}
		return older
	})
}

func cutOff(t *testing.T, c *Config) {
	engineCopy(t, c, func(b []byte) []byte { return b[:len(b)/2] })
}

// withoutNumbers is the trial's slice with a weight that is not a number: the
// scale of a block that goes straight into the layer's output.
func withoutNumbers(t *testing.T) []byte {
	t.Helper()
	b, err := oneLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Read(bytes.NewReader(b), int64(len(b)), "trial")
	if err != nil {
		t.Fatal(err)
	}
	down, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("the trial's slice has no such tensor")
	}
	const halfNaN = 0x7e00
	_, at, _ := f.Data(down).Outer()
	binary.LittleEndian.PutUint16(b[at:], halfNaN)
	return b
}
