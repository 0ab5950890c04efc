package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Graph maps a package to what it imports directly, tests left out. Packages of
// this module are named from its root (internal/wire), all others in full.
type Graph map[string][]string

// platforms are those that must build; the graph is the union over them, since
// a file for one platform can import what no other does.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}

// Load reads the import graph of the module at root with all its dependencies.
func Load(root string) (Graph, error) {
	g := Graph{}
	for _, platform := range platforms {
		if err := g.add(root, platform); err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
	}
	return g, nil
}

func (g Graph) add(root, platform string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	list.Dir = root
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var complaints bytes.Buffer
	list.Stderr = &complaints
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, complaints.Bytes())
	}
	for entries := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := entries.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		g.record(p.ImportPath, p.Imports)
	}
}

func (g Graph) record(path string, imports []string) {
	name, ok := nameOf(path)
	if !ok {
		return
	}
	if _, known := g[name]; !known {
		g[name] = []string{}
	}
	for _, i := range imports {
		if i, ok := nameOf(i); ok && !slices.Contains(g[name], i) {
			g[name] = append(g[name], i)
		}
	}
}

// nameOf names a package as Graph does. The standard library's own internal/...
// and cmd/..., which nobody else can import, are left out: they would be taken
// for ours.
func nameOf(path string) (name string, ok bool) {
	if name, ok := strings.CutPrefix(path, Module+"/"); ok {
		return name, true
	}
	return path, !ours(path)
}

// ours reports whether a package belongs to this module.
func ours(pkg string) bool {
	return within(pkg, "cmd") || within(pkg, "internal") || within(pkg, "tools")
}

// within reports whether pkg is folder or lies below it.
func within(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// packages returns the packages of this module, sorted.
func (g Graph) packages() []string {
	var found []string
	for pkg := range g {
		if ours(pkg) {
			found = append(found, pkg)
		}
	}
	slices.Sort(found)
	return found
}

// paths follows imports from pkg and returns, for each package it reaches, one
// shortest chain of imports that leads there.
func (g Graph) paths(pkg string) map[string][]string {
	chains := map[string][]string{pkg: {pkg}}
	for queue := []string{pkg}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g[queue[0]] {
			if _, seen := chains[next]; !seen {
				chains[next] = append(slices.Clone(chains[queue[0]]), next)
				queue = append(queue, next)
			}
		}
	}
	delete(chains, pkg)
	return chains
}

// reach lists the chains by which packages that from accepts reach packages
// that to accepts.
func (g Graph) reach(from, to func(string) bool) []string {
	var breaches []string
	for _, pkg := range g.packages() {
		if !from(pkg) {
			continue
		}
		chains := g.paths(pkg)
		for _, target := range slices.Sorted(maps.Keys(chains)) {
			if to(target) {
				breaches = append(breaches, strings.Join(chains[target], " -> "))
			}
		}
	}
	return breaches
}

// imports lists the direct imports from packages that from accepts to packages
// that to accepts.
func (g Graph) imports(from, to func(string) bool) []string {
	var breaches []string
	for _, pkg := range g.packages() {
		for _, target := range slices.Sorted(slices.Values(g[pkg])) {
			if from(pkg) && to(target) {
				breaches = append(breaches, pkg+" -> "+target)
			}
		}
	}
	return breaches
}

// anyOf accepts the folders and what lies below them.
func anyOf(folders ...string) func(string) bool {
	return func(pkg string) bool {
		return slices.ContainsFunc(folders, func(folder string) bool { return within(pkg, folder) })
	}
}

// noneOf accepts everything but the folders and what lies below them.
func noneOf(folders ...string) func(string) bool {
	inside := anyOf(folders...)
	return func(pkg string) bool { return !inside(pkg) }
}
