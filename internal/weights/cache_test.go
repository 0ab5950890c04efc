//go:build linux || darwin

package weights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

func TestSliceIsMadeOnceAndFoundAgain(t *testing.T) {
	testkit.Leaks(t)
	s, dir := newSubject(t), t.TempDir()
	first := mustSlice(t, s, open(t, dir))
	if !first.Made || first.Replaced != nil {
		t.Errorf("made %v, replaced %v", first.Made, first.Replaced)
	}
	var done, total int64
	again, err := s.slice(open(t, dir), func(d, n int64) { done, total = d, n })
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Made || again.Path() != first.Path() {
		t.Errorf("made again: %v; %s and %s", again.Made, again.Path(), first.Path())
	}
	if done != total || total != int64(len(s.want)) {
		t.Errorf("progress ended at %d of %d", done, total)
	}
	if b, err := os.ReadFile(first.Path()); err != nil || !bytes.Equal(b, s.want) {
		t.Errorf("what lies at the path is not the slice (%v)", err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("the folder holds %v", got)
	}
}

// TestBadSliceIsNeverUsed damages the kept slice in each way that a disk or a
// person can.
func TestBadSliceIsNeverUsed(t *testing.T) {
	s := newSubject(t)
	for name, damage := range map[string]func(path string) error{
		"a bit in the header":   func(p string) error { return flip(p, 40) },
		"a bit in a tensor":     func(p string) error { return flip(p, int64(len(s.want)/2)) },
		"the last byte":         func(p string) error { return flip(p, int64(len(s.want)-1)) },
		"cut":                   func(p string) error { return os.Truncate(p, int64(len(s.want)-1)) },
		"longer":                func(p string) error { return os.Truncate(p, int64(len(s.want)+1)) },
		"empty":                 func(p string) error { return os.Truncate(p, 0) },
		"a folder in its place": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		"a link to nowhere":     func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/nowhere/at/all", p)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := mustSlice(t, s, open(t, dir)).Path()
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			got := mustSlice(t, s, open(t, dir))
			if !got.Made {
				t.Error("the damaged slice was taken")
			}
			if name != "a link to nowhere" && !errors.Is(got.Replaced, fault.CacheSliceCorrupt) {
				t.Errorf("what was wrong is not told: %v", got.Replaced)
			}
			if mustSlice(t, s, open(t, dir)).Made {
				t.Error("the slice made in its place was not kept")
			}
		})
	}
}

func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	if err == nil {
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	}
	return errors.Join(err, f.Close())
}

// TestUnnamedSliceLeavesNothing: no name while it is used, nothing afterwards.
func TestUnnamedSliceLeavesNothing(t *testing.T) {
	testkit.Leaks(t)
	s := newSubject(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	c := open(t, "")
	got, err := s.slice(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Path() != "" || len(names(t, tmp)) != 0 {
		t.Errorf("path %q, names %v", got.Path(), names(t, tmp))
	}
	if runtime.GOOS == "linux" { // as a worker opens it, by its descriptor
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", got.File().Fd()))
		if err != nil || !bytes.Equal(b, s.want) {
			t.Errorf("through the descriptor: %d bytes, %v", len(b), err)
		}
	}
	if err := got.Close(); err != nil {
		t.Error(err)
	}
}

func TestUnlinkedSliceHasNoNameEither(t *testing.T) {
	dir := t.TempDir()
	f, err := unlinked(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("x"); err != nil || len(names(t, dir)) != 0 {
		t.Errorf("names %v, %v", names(t, dir), err)
	}
}

// TestSeveralWritersAtOnce: all get the slice, one file stays.
func TestSeveralWritersAtOnce(t *testing.T) {
	s, dir := newSubject(t), t.TempDir()
	var group sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		group.Go(func() {
			c, err := OpenCache(dir)
			if err != nil {
				errs[i] = err
				return
			}
			got, err := s.slice(c, nil)
			if err != nil {
				errs[i] = err
				return
			}
			b, err := io.ReadAll(io.NewSectionReader(got.File(), 0, got.Size()))
			if !bytes.Equal(b, s.want) {
				err = errors.Join(err, errors.New("other bytes"))
			}
			errs[i] = errors.Join(err, got.Close())
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); len(got) != 1 || !strings.HasSuffix(got[0], whole) {
		t.Errorf("the folder holds %v", got)
	}
}

// TestLiveWriterIsNotSwept opens the cache anew while a slice is being written.
func TestLiveWriterIsNotSwept(t *testing.T) {
	s, dir := newSubject(t), t.TempDir()
	swept := false
	got, err := s.slice(open(t, dir), func(done, total int64) {
		if done > total/2 && !swept {
			swept = true
			open(t, dir)
			if left := names(t, dir); len(left) != 1 || !strings.HasSuffix(left[0], part) {
				t.Errorf("half-way the folder holds %v", left)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if !swept {
		t.Error("the writer never told that it was half-way")
	}
	mustSlice(t, s, open(t, dir))
}

// TestManifestIsKept: a model that has not changed is not read again, one that
// has is.
func TestManifestIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randmodel.GenerateFile(path, randmodel.Config{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	manifest := func(later time.Duration) (man *gguf.Manifest, read bool) {
		t.Helper()
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := open(t, dir)
		c.now = func() time.Time { return time.Now().Add(later) }
		man, err = c.Manifest(context.Background(), f, func(int64, int64) { read = true })
		if err != nil {
			t.Fatal(err)
		}
		return man, read
	}
	if _, read := manifest(0); !read || len(names(t, dir)) != 0 {
		t.Error("a file written this very moment cannot be known again, yet its manifest was kept")
	}
	first, _ := manifest(time.Hour)
	again, read := manifest(time.Hour)
	if read || again.Revision != first.Revision {
		t.Errorf("read again: %v", read)
	}
	kept := names(t, dir)
	if err := os.WriteFile(filepath.Join(dir, kept[0]), []byte(`{"revision":"x"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if repaired, read := manifest(time.Hour); !read || repaired.Revision != first.Revision {
		t.Error("a damaged manifest was taken")
	}
	if err := flip(path, 300_000); err != nil {
		t.Fatal(err)
	}
	if changed, read := manifest(time.Hour); !read || changed.Revision == first.Revision {
		t.Error("the model has changed and its manifest has not")
	}
	if slices.ContainsFunc(names(t, dir), func(n string) bool { return strings.HasSuffix(n, part) }) {
		t.Errorf("the folder holds %v", names(t, dir))
	}
}
