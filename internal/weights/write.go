package weights

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/machine"
)

// unnamed writes a slice to a file that has no name, in the system's folder
// for temporary files.
func (c *Cache) unnamed(ctx context.Context, plan *gguf.SlicePlan, f *gguf.File, man *gguf.Manifest, progress Progress) (*Slice, error) {
	dir := os.TempDir()
	if err := enough(dir, plan.Size); err != nil {
		return nil, err
	}
	file, err := nameless(dir)
	if err != nil {
		return nil, unmade(dir, plan.Size, err)
	}
	if err := c.fill(file, func(w io.Writer) error { return plan.Write(ctx, w, f, man, progress) }); err != nil {
		_ = file.Close()
		return nil, unwritten(dir, plan.Size, err)
	}
	return &Slice{Made: true, file: file, size: plan.Size}, nil
}

// produce writes a slice to a .part, and gives it its name when all of it is on
// the disk.
func (c *Cache) produce(ctx context.Context, path string, plan *gguf.SlicePlan, f *gguf.File, man *gguf.Manifest, progress Progress) (*Slice, error) {
	if err := enough(filepath.Dir(path), plan.Size); err != nil {
		return nil, err
	}
	file, err := c.place(path, plan.Size, func(w io.Writer) error { return plan.Write(ctx, w, f, man, progress) })
	if err != nil {
		return nil, err
	}
	return &Slice{Made: true, path: path, file: file, size: plan.Size}, nil
}

// place writes a file of size bytes, or about so many, which is at path when
// place returns and never before it is whole.
func (c *Cache) place(path string, size int64, write func(io.Writer) error) (*os.File, error) {
	dir := filepath.Dir(path)
	file, err := c.begin(path)
	if err != nil {
		return nil, unmade(dir, size, err)
	}
	err = c.fill(file, write)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = removed(file.Name())
		_ = file.Close()
		return nil, unwritten(dir, size, err)
	}
	if err := syncFolder(dir); err != nil {
		_ = file.Close()
		return nil, unwritten(dir, size, err)
	}
	return file, nil
}

// begin makes a .part and locks it. A sweep between the two may have removed
// it, in which case another is made.
func (c *Cache) begin(path string) (*os.File, error) {
	const tries = 100
	stem := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	for range tries {
		file, err := os.CreateTemp(filepath.Dir(path), stem+".*"+part)
		if err != nil {
			return nil, err
		}
		_, _ = lock(file) // a folder that knows no locks is never swept
		if there, err := os.Stat(file.Name()); err == nil {
			if info, err := file.Stat(); err == nil && os.SameFile(there, info) {
				return file, nil
			}
		}
		_ = file.Close()
	}
	return nil, errors.New("files made here are removed at once")
}

func (c *Cache) fill(file *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(c.wrap(file), 256<<10)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// enough looks for free space before anything is written: a disk that runs
// full half-way troubles others too.
func enough(dir string, need int64) error {
	if free, known := machine.Space(dir); known && free < uint64(need) {
		return fault.New(fault.CacheDiskFull, component, "path", dir, "need", bytesText(need)).
			Because(fmt.Errorf("%s are free", bytesText(int64(free))))
	}
	return nil
}

// unwritten is the fault of a write that failed: err itself where reading the
// model failed, and not the write.
func unwritten(dir string, need int64, err error) error {
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return f
	case full(err):
		return fault.New(fault.CacheDiskFull, component, "path", dir, "need", bytesText(need)).Because(err)
	}
	return fault.New(fault.CacheWriteFailed, component, "path", dir).Because(err)
}

// unmade is the fault of a file that could not be made.
func unmade(dir string, need int64, err error) error {
	var f *fault.Fault
	if full(err) || errors.As(err, &f) {
		return unwritten(dir, need, err)
	}
	return fault.New(fault.CacheFolderUnwritable, component, "path", dir).Because(err)
}

func bytesText(n int64) string {
	const mega = 1 << 20
	if n < mega {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mega)
}
