// Package enginedir finds the folder of the llama.cpp libraries, lists what is
// in it and makes the links by which the binding opens them. It loads nothing
// and so cannot tell whether the libraries are the right ones: the guard of
// the engine package does.
package enginedir

import (
	"os"
	"path/filepath"
	"runtime"

	"muster/internal/fault"
)

// Pinned is the llama.cpp version that this build drives.
const Pinned = "0.4.0"

const component = "engine"

// Platform is the name of this platform's package, such as "linux-x64", "" on
// one for which there is none.
func Platform() string { return platforms[runtime.GOOS+"/"+runtime.GOARCH] }

var platforms = map[string]string{
	"linux/amd64":   "linux-x64",
	"linux/arm64":   "linux-arm64",
	"darwin/amd64":  "mac-x64",
	"darwin/arm64":  "mac-arm64-metal",
	"windows/amd64": "win-x64",
	"windows/arm64": "win-arm64",
}

// variants of a package, by preference: what is installed by default, then what
// somebody installed in its place.
var variants = []string{"", "-cuda", "-vulkan"}

// Locate finds the folder. chosen, where not empty, is the folder a person
// named (--engine or MUSTER_ENGINE): of the libraries themselves, or one into
// which their package was installed. Otherwise engine/<platform> is looked for
// in each of bases. Fault: engine.libraries_missing.
func Locate(chosen string, bases ...string) (string, error) {
	if chosen != "" {
		for _, dir := range append([]string{chosen}, installed(chosen)...) {
			if holds(dir) {
				return filepath.Abs(dir)
			}
		}
		return "", missing(chosen, "it holds no "+short("llama"))
	}
	if Platform() == "" {
		return "", missing("engine", "there is no package for "+runtime.GOOS+"/"+runtime.GOARCH)
	}
	looked := "engine/" + Platform()
	for _, base := range bases {
		for _, v := range variants {
			root := filepath.Join(base, "engine", Platform()+v)
			for _, dir := range installed(root) {
				if holds(dir) {
					return filepath.Abs(dir)
				}
			}
		}
		looked = filepath.Join(base, "engine", Platform())
	}
	return "", missing(looked, "it is not installed")
}

// Bases are the folders in which a program looks for engine/<platform>: the one
// above its own, its own, and the working directory.
func Bases() []string {
	var bases []string
	if exe, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(exe); err == nil {
			exe = target
		}
		dir := filepath.Dir(exe)
		bases = append(bases, filepath.Dir(dir), dir)
	}
	if wd, err := os.Getwd(); err == nil {
		bases = append(bases, wd)
	}
	return bases
}

// installed are the folders below root in which npm puts the libraries.
func installed(root string) []string {
	var dirs []string
	for _, v := range variants {
		p := Platform() + v
		dirs = append(dirs, filepath.Join(root, "node_modules", "@node-llama-cpp", p, "bins", p))
	}
	return dirs
}

// holds reports whether dir has a llama library under its short or a long name.
func holds(dir string) bool {
	_, err := target(dir, "llama")
	return err == nil
}

func missing(path, what string) *fault.Fault {
	return fault.New(fault.EngineMissing, component, "path", path, "what", what)
}
