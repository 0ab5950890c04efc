package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

// clock names what a core may not use of package time: whatever reads or waits
// for a clock. Durations and instants it was given are values.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"}

// Impurities lists, as file:line, what in the source of a core starts a
// goroutine, touches a channel or reads the clock. Source may be nil: then name
// is opened.
func Impurities(name string, source any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	timeName := importedAs(file, "time")
	var breaches []string
	ast.Inspect(file, func(n ast.Node) bool {
		if what := impurity(n, timeName); what != "" {
			at := files.Position(n.Pos())
			breaches = append(breaches, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, what))
		}
		return true
	})
	return breaches, nil
}

// impurity says what is impure in one node, "" where nothing is.
func impurity(n ast.Node, timeName string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.ChanType:
		return "has a channel"
	case *ast.SelectStmt:
		return "selects on channels"
	case *ast.SendStmt:
		return "sends on a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receives from a channel"
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && timeName != "" && x.Name == timeName && slices.Contains(clock, n.Sel.Name) {
			return "reads the clock with time." + n.Sel.Name
		}
	}
	return ""
}

// importedAs returns the name by which a file knows a package, "" where it does
// not import it.
func importedAs(file *ast.File, path string) string {
	for _, i := range file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err != nil || p != path {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path
	}
	return ""
}
