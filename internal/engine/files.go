package engine

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/hybridgroup/yzma/pkg/loader"

	"muster/internal/fault"
	"muster/internal/syslib"
)

// libraries are the short names yzma opens, in the order in which they depend
// on one another.
var libraries = []string{"ggml-base", "ggml", "llama"}

// checkFiles refuses a folder whose libraries are missing or cut off, before the
// dynamic loader maps them: it would die of SIGBUS on a file that ends early.
func checkFiles(dir string) error {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fault.New(fault.EngineMissing, component, "path", dir, "what", "no such folder")
	}
	for _, name := range libraries {
		path := loader.GetLibraryFilename(dir, name)
		if _, err := os.Stat(path); err != nil {
			return fault.New(fault.EngineMissing, component,
				"path", dir, "what", "no "+filepath.Base(path)).Because(err)
		}
	}
	if runtime.GOOS != "linux" {
		return nil
	}
	all, err := filepath.Glob(filepath.Join(dir, "lib*.so"))
	if err != nil {
		return fault.New(fault.EngineMissing, component, "path", dir, "what", "unreadable").Because(err)
	}
	for _, path := range all {
		if err := checkELF(path); err != nil {
			return fault.New(fault.EngineLoadFailed, component, "path", dir).
				Because(fmt.Errorf("%s: %w", filepath.Base(path), err))
		}
	}
	return nil
}

// checkELF holds every segment of a shared object against the file's length.
func checkELF(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("no whole ELF file: %w", err)
	}
	size := uint64(st.Size())
	for _, p := range e.Progs {
		if p.Off > size || p.Filesz > size-p.Off {
			return fmt.Errorf("ends after %d bytes, inside a segment", size)
		}
	}
	return nil
}

// notFound is the fixed wording of glibc's loader.
const notFound = ": cannot open shared object file"

// loadFault types what the dynamic loader said.
func loadFault(dir string, err error) *fault.Fault {
	if library, pkg, found := syslib.Missing(err.Error()); found {
		return fault.New(fault.WorkerLibraryMissing, component, "library", library, "package", pkg).Because(err)
	}
	if file, _, found := strings.Cut(err.Error(), notFound); found {
		return fault.New(fault.EngineMissing, component, "path", dir, "what", "no "+filepath.Base(file)).Because(err)
	}
	return fault.New(fault.EngineLoadFailed, component, "path", dir).Because(err)
}
