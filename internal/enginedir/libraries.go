package enginedir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Library is one shared library of the engine.
type Library struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	Digest string `json:"digest"` // sha256, hexadecimal
}

// Libraries lists the shared libraries in dir by name, links left out. Fault:
// engine.libraries_missing where one cannot be read or there is none.
func Libraries(dir string) ([]Library, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, missing(dir, "it cannot be read").Because(err)
	}
	var libraries []Library
	for _, e := range entries {
		if !isLibrary(e) {
			continue
		}
		lib, err := digest(dir, e.Name())
		if err != nil {
			return nil, missing(dir, e.Name()+" cannot be read").Because(err)
		}
		libraries = append(libraries, lib)
	}
	if len(libraries) == 0 {
		return nil, missing(dir, "it holds no libraries")
	}
	return libraries, nil
}

func digest(dir, name string) (Library, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return Library{}, err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return Library{}, err
	}
	return Library{Name: name, Size: size, Digest: hex.EncodeToString(sum.Sum(nil))}, nil
}

// Stamp tells the libraries in dir from changed ones without reading them: their
// names, sizes, times and numbers on the disk. Faults as of Libraries.
func Stamp(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", missing(dir, "it cannot be read").Because(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return "", missing(dir, e.Name()+" cannot be read").Because(err)
		}
		if isLibrary(e) {
			fmt.Fprintln(&b, e.Name(), FileStamp(info))
		}
	}
	return b.String(), nil
}

func isLibrary(e os.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasSuffix(e.Name(), naming.suffix)
}
