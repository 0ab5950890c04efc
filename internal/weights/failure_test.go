//go:build linux || darwin

package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// TestFailedWriteLeavesNothing: a full disk, a broken one, a source that
// changed and a cancelled context.
func TestFailedWriteLeavesNothing(t *testing.T) {
	testkit.Leaks(t)
	s := newSubject(t)
	for name, c := range map[string]struct {
		err  error
		want fault.Code
	}{
		"no space":    {syscall.ENOSPC, fault.CacheDiskFull},
		"quota":       {syscall.EDQUOT, fault.CacheDiskFull},
		"a bad disk":  {syscall.EIO, fault.CacheWriteFailed},
		"size limit":  {syscall.EFBIG, fault.CacheWriteFailed},
		"interrupted": {fault.New(fault.RunInterrupted, ""), fault.RunInterrupted},
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s named %v", name, named), func(t *testing.T) {
				t.Setenv("TMPDIR", t.TempDir())
				dir := ""
				if named {
					dir = t.TempDir()
				}
				cache := open(t, dir)
				cache.wrap = func(w io.Writer) io.Writer { return &failing{w, len(s.want) / 2, c.err} }
				_, err := s.slice(cache, nil)
				if !errors.Is(err, c.want) {
					t.Errorf("got %v", err)
				}
				if f := fault.From(err); strings.Contains(f.Error()+f.Hint(), "{") {
					t.Errorf("what a person reads is not whole: %v; %s", f, f.Hint())
				}
				for _, folder := range []string{dir, os.TempDir()} {
					if folder != "" && len(names(t, folder)) != 0 {
						t.Errorf("left behind: %v", names(t, folder))
					}
				}
			})
		}
	}
}

// failing writes so many bytes and then fails.
type failing struct {
	w    io.Writer
	left int
	err  error
}

func (f *failing) Write(b []byte) (int, error) {
	if len(b) <= f.left {
		f.left -= len(b)
		return f.w.Write(b)
	}
	n, _ := f.w.Write(b[:f.left])
	f.left = 0
	return n, f.err
}

func TestCancelledSliceLeavesNothing(t *testing.T) {
	s, dir := newSubject(t), t.TempDir()
	c := open(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := c.Slice(ctx, s.plan, s.file, s.man, func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	})
	cancel()
	if !errors.Is(err, fault.RunInterrupted) || len(names(t, dir)) != 0 {
		t.Errorf("got %v, left %v", err, names(t, dir))
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"below a file": filepath.Join(plain, "cache")}
	if runtime.GOOS == "linux" {
		paths["in /proc"] = "/proc/muster"
	}
	if os.Geteuid() != 0 {
		sealed := filepath.Join(dir, "sealed")
		if err := os.Mkdir(sealed, 0o500); err != nil {
			t.Fatal(err)
		}
		paths["read-only"] = sealed
	}
	for name, path := range paths {
		_, err := OpenCache(path)
		if !errors.Is(err, fault.CacheFolderUnwritable) || fault.From(err).Attr("path") != path {
			t.Errorf("%s: got %v", name, err)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	if _, err := newSubjectIn(t, dir).slice(open(t, ""), nil); !errors.Is(err, fault.CacheFolderUnwritable) {
		t.Errorf("no folder for temporary files: got %v", err)
	}
}

func newSubjectIn(t *testing.T, dir string) subject {
	t.Helper()
	path := filepath.Join(dir, "model.gguf")
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

// TestFoldersWithPatternCharacters: the sweep finds its way there too.
func TestFoldersWithPatternCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*?c")
	open(t, dir)
	left := filepath.Join(dir, slicesFolder, "x.1"+part)
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was not swept (%v)", left, err)
	}
}
