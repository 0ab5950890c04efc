package event

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/internal/fault"
)

// Every type of the package that has a Name is among the kinds, or it would
// cross no process.
func TestEveryEventIsOfAKind(t *testing.T) {
	listed := map[string]bool{}
	for _, k := range kinds {
		listed[reflect.TypeOf(k).Name()] = true
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Name" {
				continue
			}
			found++
			if name := f.Recv.List[0].Type.(*ast.Ident).Name; !listed[name] {
				t.Errorf("%s is not among the kinds", name)
			}
		}
	}
	if found != len(kinds) || found != len(byName) {
		t.Errorf("%d events, %d kinds, %d names", found, len(kinds), len(byName))
	}
}

func TestEventsCrossProcesses(t *testing.T) {
	sent := FactFailed{Attempt: 2, Fact: "worker", Took: time.Second, Fault: fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL")}
	line, err := json.Marshal(Stamped{Time: time.Now(), Event: sent})
	if err != nil {
		t.Fatal(err)
	}
	got, known := Parse(line)
	if !known || !reflect.DeepEqual(got, sent) {
		t.Errorf("%s came as %+v", line, got)
	}
	for _, other := range []string{"", "{}", `{"event":"of.another_build"}`, `{"event":7}`, `{"event":"node.left","reason":7}`} {
		if e, known := Parse([]byte(other)); known {
			t.Errorf("%q came as %+v", other, e)
		}
	}
}
