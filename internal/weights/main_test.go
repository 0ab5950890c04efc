//go:build linux || darwin

package weights

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/gguf"
	"muster/internal/testkit/randmodel"

	"go.uber.org/goleak"
)

// writerEnv makes this test binary a writer that stops half-way: its value is
// the folder of the cache.
const writerEnv = "MUSTER_TEST_WEIGHTS_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		os.Exit(writeHalf(dir))
	}
	goleak.VerifyTestMain(m)
}

// subject is a model with the plan of one stage.
type subject struct {
	file *gguf.File
	man  *gguf.Manifest
	plan *gguf.SlicePlan
	want []byte // the bytes of the slice
}

func newSubject(t testing.TB) subject {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randmodel.GenerateFile(path, randmodel.Config{}); err != nil {
		t.Fatal(err)
	}
	s, err := openSubject(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

func openSubject(path string) (subject, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return subject{}, err
	}
	m, err := gguf.Inspect(f)
	if err != nil {
		return subject{}, err
	}
	man, err := gguf.BuildManifest(context.Background(), f, nil)
	if err != nil {
		return subject{}, err
	}
	plan, err := gguf.PlanSlice(f, m, gguf.Range{Start: 1, End: 3})
	if err != nil {
		return subject{}, err
	}
	var want bytes.Buffer
	err = plan.Write(context.Background(), &want, f, man, nil)
	return subject{f, man, plan, want.Bytes()}, err
}

func (s subject) slice(c *Cache, progress Progress) (*Slice, error) {
	return c.Slice(context.Background(), s.plan, s.file, s.man, progress)
}

func open(t testing.TB, dir string) *Cache {
	t.Helper()
	c, err := OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustSlice(t testing.TB, s subject, c *Cache) *Slice {
	t.Helper()
	got, err := s.slice(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Close() })
	b, err := io.ReadAll(io.NewSectionReader(got.File(), 0, got.Size()))
	if err != nil || !bytes.Equal(b, s.want) {
		t.Fatalf("the slice's bytes are others (%v)", err)
	}
	return got
}

// names lists all files below a folder.
func names(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
