package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reachers are the functions of a package that use a field or method of a name,
// in order, without its tests.
func reachers(t *testing.T, folder, name string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no source in %s (%v)", folder, err)
	}
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, usersOf(t, path, string(text), name)...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func usersOf(t *testing.T, path, text, name string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range file.Decls {
		in := "a declaration of " + filepath.Base(path)
		if f, is := d.(*ast.FuncDecl); is {
			in = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && s.Sel.Name == name {
				found = append(found, in)
			}
			return true
		})
	}
	return found
}

// One function leads from a loaded shard to its registration, for stages and for
// offers: it alone calls Register, what examines is called by it alone, the
// tracker's client is reached by these and by the renewal of the lease alone, and the node has it begun at one place, when the stage core says so.
func TestOneFunctionAloneRegisters(t *testing.T) {
	const folder = "internal/node"
	for name, want := range map[string][]string{
		"Register": {"admit"},
		"examined": {"admit"},
		"admit":    {"performStage"},
		"tracker":  {"admit", "examined", "openNetwork", "renew"},
	} {
		if got := reachers(t, folder, name); !slices.Equal(got, want) {
			t.Errorf("%s is used by %v, want %v", name, got, want)
		}
	}
	stray := usersOf(t, "x.go", "package x\nfunc other(n net) { n.tracker.Register() }\nvar y = z.Register", "Register")
	if !slices.Equal(stray, []string{"other", "a declaration of x.go"}) {
		t.Errorf("a stray call is seen as %v", stray)
	}
}
