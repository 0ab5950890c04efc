package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/gguf"
	"muster/internal/preset"
	"muster/internal/testkit"
)

// engineFor is the engine with the kernels of one kind of processor alone.
func engineFor(t *testing.T, processor string) string {
	t.Helper()
	const variant = "libggml-cpu-"
	from, dir := testkit.EngineDir(t), t.TempDir()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), variant) && f.Name() != variant+processor+".so" {
			continue
		}
		if err := os.Symlink(filepath.Join(from, f.Name()), filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The reference that is built in was made on one machine. Sound shards on the
// kernels of other processors are within its tolerance.
func TestTheBuiltInReferenceHoldsOnEveryProcessor(t *testing.T) {
	cfg, _ := config(t, tale(t))
	own, err := preset.BuiltIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Recipe = own.Recipe
	engines := map[string]string{"this one": cfg.Engine}
	for _, older := range []string{"x64", "sse42", "sandybridge"} {
		engines[older] = engineFor(t, older)
	}
	for processor, engine := range engines {
		t.Run(processor, func(t *testing.T) {
			of := cfg
			of.Engine = engine
			for _, layers := range [][2]int{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 8}, {0, 3}, {3, 6}, {6, 8}, {0, 8}} {
				ref, err := own.Probe.Reference(layers)
				if err != nil {
					t.Fatal(err)
				}
				of.Layers = gguf.Range{Start: layers[0], End: layers[1]}
				taken(t, of, own.Probe.Facts, ref, func(e *exam) {
					for _, k := range []kind{whole, single} {
						if d := e.away(k); !ref.Tolerance.Holds(d) {
							t.Errorf("layers %v, kind %d: %+v, tolerated is %+v", layers, k, d, ref.Tolerance)
						}
					}
				})
			}
		})
	}
}
