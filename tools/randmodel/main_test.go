package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/gguf"
)

func TestFlagsShapeTheModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	var stderr bytes.Buffer
	// The preset's width and type with fewer layers and tokens.
	if code := run([]string{"-preset", "250m", "-layers", "1", "-vocabulary", "320", "-ffn", "32", path}, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := gguf.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	if m.Layers != 1 || m.Vocabulary != 320 || m.Width != 1024 || m.Heads != 16 {
		t.Errorf("got %+v", m)
	}
}

func TestMistakesAreTold(t *testing.T) {
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{}, 2, "one file is wanted"},
		{[]string{"-preset", "9t", "x"}, 2, "250m"},
		{[]string{"-arch", "bert", "x"}, 2, "qwen3moe"},
		{[]string{"-layers", "many", "x"}, 2, "-layers"},
		{[]string{"-help"}, 0, "-layers"},
	} {
		var stderr bytes.Buffer
		if code := run(c.args, &stderr); code != c.exit || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: exit %d, %s", c.args, code, &stderr)
		}
	}
}
