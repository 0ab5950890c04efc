package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// Texts maps a constant of package fault, by its name, to all that its entry
// says to a person: sentence and hint.
type Texts map[string]string

var figure = regexp.MustCompile(`\{([a-z_]+)\}`)

// MissingFigures lists, as file:line, the calls of fault.New that leave a
// figure of their entry unfilled: a person would read {path}. Calls whose code
// or figures are not written out are passed over. Source may be nil: then name
// is opened.
func MissingFigures(name string, source any, texts Texts) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var breaches []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || faultName(call.Fun) != "New" || len(call.Args) < 2 || call.Ellipsis.IsValid() {
			return true
		}
		code := faultName(call.Args[0])
		given := figuresGiven(call.Args[2:])
		if code == "" || given == nil {
			return true
		}
		for _, m := range figure.FindAllStringSubmatch(texts[code], -1) {
			if !given[m[1]] {
				at := files.Position(call.Pos())
				breaches = append(breaches, fmt.Sprintf("%s:%d: %s is given no %q", at.Filename, at.Line, code, m[1]))
				given[m[1]] = true
			}
		}
		return true
	})
	return breaches, nil
}

// faultName returns X of the expression fault.X, "" for any other.
func faultName(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); !ok || x.Name != "fault" {
		return ""
	}
	return s.Sel.Name
}

// figuresGiven returns the keys among keys and values in turn, nil where a key
// is not written out.
func figuresGiven(pairs []ast.Expr) map[string]bool {
	given := map[string]bool{}
	for i := 0; i < len(pairs); i += 2 {
		key, ok := pairs[i].(*ast.BasicLit)
		if !ok {
			return nil
		}
		text, err := strconv.Unquote(key.Value)
		if err != nil {
			return nil
		}
		given[strings.TrimSpace(text)] = true
	}
	return given
}
