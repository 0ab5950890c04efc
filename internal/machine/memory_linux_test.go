package machine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMeasureMemoryIsOfThisMachine(t *testing.T) {
	m, ok := MeasureMemory()
	if !ok {
		t.Fatal("no figures on Linux")
	}
	if m.Available == 0 || m.Available > m.Total {
		t.Fatalf("available %d of %d", m.Available, m.Total)
	}
}

func TestControlGroupTakesTheTightestLimit(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("self", "0::/a/b\n")
	write("cg/a/memory.max", "1000\n")
	write("cg/a/memory.current", "700\n")
	write("cg/a/memory.stat", "anon 300\ninactive_file 250\n")
	write("cg/a/b/memory.max", "max\n")
	write("cg/a/b/memory.current", "10\n")
	limit, used, bounded := controlGroup(filepath.Join(root, "cg"), filepath.Join(root, "self"))
	if limit != 1000 || used != 450 || !bounded {
		t.Fatalf("limit %d used %d bounded %v, want 1000 450 true", limit, used, bounded)
	}
	if _, _, bounded := controlGroup(filepath.Join(root, "none"), filepath.Join(root, "self")); bounded {
		t.Fatal("bounded without a limit file")
	}
}
