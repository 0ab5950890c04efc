package archtest

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"muster/internal/fault"
)

func TestFaultsFillTheirSentences(t *testing.T) {
	texts := catalogueTexts(t)
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		found, err := MissingFigures(filepath.Join(root, filepath.FromSlash(name)), nil, texts)
		if err != nil {
			t.Error(err)
		}
		for _, breach := range found {
			t.Errorf("%s: its sentence or hint would show the bare name in braces", breach)
		}
	}
}

func TestMissingFiguresAreSeen(t *testing.T) {
	texts := Texts{"FileMissing": "no file at {path}\nlook in {folder} for {path}"}
	const source = `package x
var a = fault.New(fault.FileMissing, "x", "path", 1, "folder", 2)
var b = fault.New(fault.FileMissing, "x", "path", 1)
var c = fault.New(fault.FileMissing, "x").Because(err)
var d = fault.New(code, "x")
var e = fault.New(fault.FileMissing, "x", pairs...)
var f = fault.New(fault.FileMissing, "x", key, 1)
`
	got, err := MissingFigures("x.go", source, texts)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`x.go:3: FileMissing is given no "folder"`,
		`x.go:4: FileMissing is given no "path"`,
		`x.go:4: FileMissing is given no "folder"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("seen are %q, want %q", got, want)
	}
}

// catalogueTexts reads the names of the codes from the source, their texts from
// the catalogue.
func catalogueTexts(t *testing.T) Texts {
	t.Helper()
	texts := Texts{}
	ast.Inspect(parse(t, "internal/fault/codes.go", 0), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != len(spec.Names) {
			return true
		}
		for i, name := range spec.Names {
			value, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				continue
			}
			code, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			e := fault.Code(code).Entry()
			texts[name.Name] = e.Says + "\n" + e.Hint
		}
		return true
	})
	if len(texts) < len(fault.Catalogue()) {
		t.Fatalf("%d codes were read, the catalogue has %d", len(texts), len(fault.Catalogue()))
	}
	return texts
}
