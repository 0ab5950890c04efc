package enginedir

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"muster/internal/fault"
)

// linked are the libraries that the binding opens by a short name, while the
// packages carry them with variant and version in the name.
var linked = []string{"llama", "ggml"}

// naming is how a platform names shared libraries.
var naming = func() struct{ prefix, suffix string } {
	switch runtime.GOOS {
	case "windows":
		return struct{ prefix, suffix string }{"", ".dll"}
	case "darwin":
		return struct{ prefix, suffix string }{"lib", ".dylib"}
	default:
		return struct{ prefix, suffix string }{"lib", ".so"}
	}
}()

func short(library string) string { return naming.prefix + library + naming.suffix }

// Link makes the short names (libllama.so, libggml.so) in dir where they are
// absent. Several processes may do so at once. Faults: engine.libraries_missing,
// engine.link_refused where dir cannot be written to.
func Link(dir string) error {
	for _, library := range linked {
		to, err := target(dir, library)
		if err != nil {
			return err
		}
		name := short(library)
		if to == name {
			continue
		}
		if err := link(dir, name, to); err != nil {
			return fault.New(fault.EngineLinkRefused, component, "path", dir, "link", name, "target", to).Because(err)
		}
	}
	return nil
}

// link puts name in place in one step, whatever dangling link stood there.
// Where symbolic links need a privilege a hard link serves.
func link(dir, name, to string) error {
	draft := filepath.Join(dir, "."+name+"."+rand.Text())
	if err := os.Symlink(to, draft); err != nil {
		if hard := os.Link(filepath.Join(dir, to), draft); hard != nil {
			return errors.Join(err, hard)
		}
	}
	if err := os.Rename(draft, filepath.Join(dir, name)); err != nil {
		_ = os.Remove(draft)
		return err
	}
	return nil
}

// target is the name in dir of the file that holds library: the short name
// where that can be opened, else the long one of the pinned version, else the
// last of the long ones, which the engine's guard refuses by its version.
func target(dir, library string) (string, error) {
	if info, err := os.Stat(filepath.Join(dir, short(library))); err == nil && info.Mode().IsRegular() {
		return short(library), nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", missing(dir, "there is no such folder")
	}
	if err != nil {
		return "", missing(dir, "it cannot be read").Because(err)
	}
	long := regexp.MustCompile(`^` + naming.prefix + library + `(\.[a-z]+)?\.v([0-9][0-9.]*)` + regexp.QuoteMeta(naming.suffix) + `$`)
	var found []string
	for _, e := range entries {
		m := long.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		if strings.TrimSuffix(m[2], ".") == Pinned {
			return e.Name(), nil
		}
		found = append(found, e.Name())
	}
	if len(found) == 0 {
		return "", missing(dir, "it holds no "+short(library))
	}
	slices.Sort(found)
	return found[len(found)-1], nil
}
