package weights

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/fault"
	"muster/internal/gguf"
)

const (
	component = "cache"

	slicesFolder    = "slices"
	manifestsFolder = "manifests"
	whole           = ".gguf"
	part            = ".part"
)

// Progress is told how many bytes of how many are done. It may be nil.
type Progress = func(done, total int64)

// Cache gives slices and manifests. Its methods may be called at once, also by
// several processes on one folder.
type Cache struct {
	dir string // "" gives slices without names

	now  func() time.Time
	wrap func(io.Writer) io.Writer // around every file that is written
}

// OpenCache opens the cache in dir, which is made where absent, and sweeps it;
// "" opens one without names. Faults: cache.folder_unwritable,
// platform.unsupported.
func OpenCache(dir string) (*Cache, error) {
	c := &Cache{dir: dir, now: time.Now, wrap: func(w io.Writer) io.Writer { return w }}
	if dir == "" {
		return c, nil
	}
	if err := supported(); err != nil {
		return nil, err
	}
	for _, folder := range []string{slicesFolder, manifestsFolder} {
		if err := writable(filepath.Join(dir, folder)); err != nil {
			return nil, fault.New(fault.CacheFolderUnwritable, component, "path", dir).Because(err)
		}
	}
	return c, c.Sweep()
}

// writable makes a folder and a file in it, for permissions do not tell the
// whole story of read-only mounts and access lists.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "trial-*"+part)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removed(f.Name()))
}

// removed removes a file that another process may have swept.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Sweep removes what dead writers left behind. OpenCache does it too.
func (c *Cache) Sweep() error {
	if c.dir == "" {
		return nil
	}
	for _, folder := range []string{slicesFolder, manifestsFolder} {
		left, err := filepath.Glob(filepath.Join(globSafe(c.dir), folder, "*"+part))
		if err != nil {
			return fault.New(fault.CacheFolderUnwritable, component, "path", c.dir).Because(err)
		}
		for _, path := range left {
			if err := sweep(path); err != nil {
				return fault.New(fault.CacheFolderUnwritable, component, "path", c.dir).Because(err)
			}
		}
	}
	return nil
}

// globSafe takes the meaning from characters which filepath.Glob would read.
func globSafe(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// sweep removes a .part unless its writer lives.
func sweep(path string) error {
	f, err := openRegular(path)
	var odd *notRegular
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &odd) {
		return nil // it has just become a slice, been swept by another, or is none of ours
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if held, err := lock(f); err == nil && held {
		return removed(path)
	}
	return nil // its writer lives, or the folder knows no locks and keeps its leftovers
}

// Slice is the file of a stage.
type Slice struct {
	// Made is true when the slice was written now, not found.
	Made bool
	// Replaced says what was wrong with a slice found in its place, which has
	// been removed and made anew; nil where nothing was.
	Replaced *fault.Fault

	path string
	file *os.File
	size int64
}

// Path is where the slice lies, "" for one without a name, which a worker
// opens by the descriptor it is given.
func (s *Slice) Path() string { return s.path }

// File is the open slice. It stays what it was verified to be even where the
// name is given to another file.
func (s *Slice) File() *os.File { return s.file }

// Size is the bytes of the slice.
func (s *Slice) Size() int64 { return s.size }

// Close gives the slice up. One without a name is gone with its last
// descriptor.
func (s *Slice) Close() error { return s.file.Close() }

// Slice returns the file of a plan, whose manifest is man. One that is found
// is verified against the plan first; otherwise it is written from f. Progress
// is told of either. Faults: those of the cache family, gguf.data_changed,
// gguf.file_unreadable, run.interrupted.
func (c *Cache) Slice(ctx context.Context, plan *gguf.SlicePlan, f *gguf.File, man *gguf.Manifest, progress Progress) (*Slice, error) {
	if c.dir == "" {
		return c.unnamed(ctx, plan, f, man, progress)
	}
	path := filepath.Join(c.dir, slicesFolder, plan.Key(man)+whole)
	s, bad, err := c.find(ctx, path, plan, man, progress)
	if s != nil || err != nil {
		return s, err
	}
	s, err = c.produce(ctx, path, plan, f, man, progress)
	if err != nil {
		return nil, err
	}
	s.Replaced = bad
	return s, nil
}

// find returns the slice at path, or nil where there is none. One that is not
// what the plan says is removed and returned as a fault beside.
func (c *Cache) find(ctx context.Context, path string, plan *gguf.SlicePlan, man *gguf.Manifest, progress Progress) (s *Slice, bad *fault.Fault, err error) {
	f, err := openRegular(path)
	var odd *notRegular
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil && !errors.As(err, &odd):
		return nil, nil, fault.New(fault.CacheFolderUnwritable, component, "path", c.dir).Because(err)
	case err == nil:
		var info os.FileInfo
		if info, err = f.Stat(); err == nil {
			err = plan.Verify(ctx, f, info.Size(), man, progress)
		}
		if err == nil {
			return &Slice{path: path, file: f, size: info.Size()}, nil, nil
		}
		_ = f.Close()
	}
	if errors.Is(err, fault.RunInterrupted) {
		return nil, nil, err
	}
	bad = fault.New(fault.CacheSliceCorrupt, component, "path", path, "what", err)
	if err := os.Remove(path); err != nil { // a folder with something in it is not ours to empty
		return nil, nil, fault.New(fault.CacheFolderUnwritable, component, "path", c.dir).Because(err)
	}
	return nil, bad, nil
}

// notRegular is what openRegular says of anything but a plain file.
type notRegular struct{ mode fs.FileMode }

func (n *notRegular) Error() string { return "it is no plain file: " + n.mode.Type().String() }

// openRegular opens a plain file. Anything else is looked at and not opened: a
// pipe would wait for its writer for ever.
func openRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &notRegular{info.Mode()}
	}
	return os.Open(path)
}
