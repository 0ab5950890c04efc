package pooldef_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/pooldef"
)

func nodeID(n int) id.NodeID { return id.NodeID{0: byte(n), 1: byte(n >> 8), 31: 1} }

// three is a pool of three nodes, of which the last has no name.
func three() pooldef.Pool {
	return pooldef.Pool{Name: "shed", Epoch: 7, Nodes: []pooldef.Node{
		{ID: nodeID(1), Name: "oak", Addresses: []string{"10.0.0.1:6878", "[fd00::1]:6878"}},
		{ID: nodeID(2), Name: "elm"},
		{ID: nodeID(3)},
	}}
}

func wantFault(t *testing.T, err error, code fault.Code, says string) {
	t.Helper()
	if !errors.Is(err, code) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want %s saying %q", err, code, says)
	}
}

func TestWhatNoPoolCanBe(t *testing.T) {
	if err := three().Check(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*pooldef.Pool){
		"it has no name":                                    func(p *pooldef.Pool) { p.Name = "" },
		`the name "a\nb" has`:                               func(p *pooldef.Pool) { p.Name = "a\nb" },
		"node 2 has no id":                                  func(p *pooldef.Pool) { p.Nodes[1].ID = id.NodeID{} },
		"two nodes have the id " + nodeID(1).String():       func(p *pooldef.Pool) { p.Nodes[2].ID = nodeID(1) },
		"two nodes have the name oak":                       func(p *pooldef.Pool) { p.Nodes[2].Name = "oak" },
		`the name "a=b" of node`:                            func(p *pooldef.Pool) { p.Nodes[0].Name = "a=b" },
		"has a comma":                                       func(p *pooldef.Pool) { p.Nodes[0].Name = "a,b" },
		"cannot be printed":                                 func(p *pooldef.Pool) { p.Nodes[0].Name = "a\x1b[2J" },
		"begins like a flag":                                func(p *pooldef.Pool) { p.Nodes[0].Name = "--data" },
		"begins or ends with a space":                       func(p *pooldef.Pool) { p.Nodes[0].Name = " oak" },
		"is longer than 64 bytes":                           func(p *pooldef.Pool) { p.Nodes[0].Name = strings.Repeat("ä", 33) },
		"is not UTF-8":                                      func(p *pooldef.Pool) { p.Nodes[0].Name = "\xff" },
		"is a node's id":                                    func(p *pooldef.Pool) { p.Nodes[0].Name = nodeID(9).String() },
		`the address "10.0.0.1" of node`:                    func(p *pooldef.Pool) { p.Nodes[0].Addresses = []string{"10.0.0.1"} },
		`the address ":6878" of node`:                       func(p *pooldef.Pool) { p.Nodes[0].Addresses = []string{":6878"} },
		`the address "oak:0" of node`:                       func(p *pooldef.Pool) { p.Nodes[0].Addresses = []string{"oak:0"} },
		`the address "oak:65536" of node`:                   func(p *pooldef.Pool) { p.Nodes[0].Addresses = []string{"oak:65536"} },
		fmt.Sprintf("of node %s is not", nodeID(2).Short()): func(p *pooldef.Pool) { p.Nodes[1].Addresses = []string{"x"} },
	} {
		p := three()
		change(&p)
		wantFault(t, p.Check(), fault.StorePoolInvalid, says)
	}
}

// Every edit leaves the definition that it was made from as it was.
func TestEdits(t *testing.T) {
	type edit = func(pooldef.Pool) (pooldef.Pool, error)
	names := func(p pooldef.Pool) string {
		var all []string
		for _, n := range p.Nodes {
			all = append(all, fmt.Sprintf("%d=%s%v", n.ID[0], n.Name, n.Addresses))
		}
		return strings.Join(all, " ")
	}
	for name, c := range map[string]struct {
		edit edit
		want string
	}{
		"add at the end": {func(p pooldef.Pool) (pooldef.Pool, error) { return p.Add(pooldef.Node{ID: nodeID(4), Name: "ash"}) }, "1=oak[10.0.0.1:6878 [fd00::1]:6878] 2=elm[] 3=[] 4=ash[]"},
		"add what is there": {func(p pooldef.Pool) (pooldef.Pool, error) {
			return p.Add(pooldef.Node{ID: nodeID(1)}, pooldef.Node{ID: nodeID(2), Name: "elm"})
		}, "1=oak[10.0.0.1:6878 [fd00::1]:6878] 2=elm[] 3=[]"},
		"remove by name, short id": {func(p pooldef.Pool) (pooldef.Pool, error) { return p.Remove("elm", nodeID(1).Short()) }, "3=[]"},
		"remove by id":             {func(p pooldef.Pool) (pooldef.Pool, error) { return p.Remove(nodeID(3).String()) }, "1=oak[10.0.0.1:6878 [fd00::1]:6878] 2=elm[]"},
		"remove one twice":         {func(p pooldef.Pool) (pooldef.Pool, error) { return p.Remove("elm", "elm") }, "1=oak[10.0.0.1:6878 [fd00::1]:6878] 3=[]"},
		"replace keeps the name":   {func(p pooldef.Pool) (pooldef.Pool, error) { return p.Replace("oak", pooldef.Node{ID: nodeID(9)}) }, "9=oak[] 2=elm[] 3=[]"},
		"replace by another name": {func(p pooldef.Pool) (pooldef.Pool, error) {
			return p.Replace("elm", pooldef.Node{ID: nodeID(9), Name: "yew"})
		}, "1=oak[10.0.0.1:6878 [fd00::1]:6878] 9=yew[] 3=[]"},
		"replace renames": {func(p pooldef.Pool) (pooldef.Pool, error) {
			return p.Replace("oak", pooldef.Node{ID: nodeID(1), Name: "yew"})
		}, "1=yew[10.0.0.1:6878 [fd00::1]:6878] 2=elm[] 3=[]"},
	} {
		before := three()
		got, err := c.edit(before)
		if err != nil || names(got) != c.want || got.Epoch != 7 || got.Name != "shed" {
			t.Errorf("%s gave %s (%v), want %s", name, names(got), err, c.want)
		}
		if !reflect.DeepEqual(before, three()) {
			t.Errorf("%s changed what it was made from: %+v", name, before)
		}
	}
	for _, c := range []struct {
		edit edit
		code fault.Code
		says string
	}{
		{func(p pooldef.Pool) (pooldef.Pool, error) { return p.Add(pooldef.Node{ID: nodeID(1), Name: "yew"}) }, fault.StorePoolInvalid, "two nodes have the id"},
		{func(p pooldef.Pool) (pooldef.Pool, error) { return p.Add(pooldef.Node{ID: nodeID(4), Name: "oak"}) }, fault.StorePoolInvalid, "two nodes have the name oak"},
		{func(p pooldef.Pool) (pooldef.Pool, error) { return p.Remove("oak", "yew") }, fault.PoolEntryUnknown, "no node yew"},
		{func(p pooldef.Pool) (pooldef.Pool, error) { return p.Replace("yew", pooldef.Node{ID: nodeID(4)}) }, fault.PoolEntryUnknown, "no node yew"},
		{func(p pooldef.Pool) (pooldef.Pool, error) { return p.Replace("oak", pooldef.Node{ID: nodeID(2)}) }, fault.StorePoolInvalid, "two nodes have the id"},
	} {
		_, err := c.edit(three())
		wantFault(t, err, c.code, c.says)
	}
}

func TestAFileIsReadBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pooldef.Pool{Name: rapid.StringMatching(`[a-zäß"'#\\]{1,9}`).Draw(t, "pool")}
		for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
			n := pooldef.Node{ID: nodeID(i + 1)}
			if rapid.Bool().Draw(t, "named") {
				n.Name = fmt.Sprint(rapid.StringMatching(`[a-z"'\\\[\]]{1,9}`).Draw(t, "name"), i)
			}
			if rapid.Bool().Draw(t, "known") {
				n.Addresses = []string{"10.0.0.1:1", fmt.Sprintf("oak:%d", i+1)}
			}
			p.Nodes = append(p.Nodes, n)
		}
		text, err := pooldef.Format(p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pooldef.Parse(text, "f", "")
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("%s is read as %+v (%v), was %+v", text, got, err, p)
		}
	})
}

func TestAFileThatIsWrongNamesTheLine(t *testing.T) {
	good := nodeID(1).String()
	for name, c := range map[string]struct {
		text string
		code fault.Code
		says string
	}{
		"no TOML":           {"name = \"x\"\nnode\n", fault.PoolFileInvalid, "pool.toml, line 2:"},
		"an unknown key":    {"name = \"x\"\ncolour = 1\n", fault.PoolFileInvalid, `pool.toml, line 2: no key "colour" is known there`},
		"a key of a node":   {"name = \"x\"\n[[node]]\nid = \"" + good + "\"\nplace = []\n", fault.PoolFileInvalid, `line 4: no key "place"`},
		"another table":     {"name = \"x\"\n\n[[nodes]]\nid = \"" + good + "\"\n", fault.PoolFileInvalid, `line 3: no key "nodes"`},
		"an epoch":          {"epoch = 4\n", fault.PoolFileInvalid, `line 1: no key "epoch"`},
		"a bad id":          {"name = \"x\"\n[[node]]\nid = \"" + good + "\"\n[[node]]\nid = \"oak\"\n", fault.PoolFileInvalid, "line 5: "},
		"a bad id, why":     {"[[node]]\nid = \"oak\"\n", fault.PoolFileInvalid, "a node id has 52"},
		"no text":           {"name = 3\n", fault.PoolFileInvalid, "line 1:"},
		"no list":           {"name = \"x\"\n[[node]]\nid = \"" + good + "\"\naddresses = \"oak:1\"\n", fault.PoolFileInvalid, "line 4:"},
		"a name twice":      {"name = \"x\"\nname = \"y\"\n", fault.PoolFileInvalid, "line 2:"},
		"no id":             {"name = \"x\"\n[[node]]\nname = \"oak\"\n", fault.StorePoolInvalid, "node 1 has no id"},
		"an id twice":       {"name = \"x\"\n[[node]]\nid = \"" + good + "\"\n[[node]]\nid = \"" + good + "\"\n", fault.StorePoolInvalid, "two nodes have the id"},
		"no name of a pool": {"[[node]]\nid = \"" + good + "\"\n", fault.StorePoolInvalid, "it has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pooldef.Parse([]byte(c.text), "pool.toml", "")
			wantFault(t, err, c.code, c.says)
		})
	}
	p, err := pooldef.Parse([]byte("[[node]]\nid = \""+good+"\"\n"), "pool.toml", "named")
	if err != nil || p.Name != "named" {
		t.Errorf("a pool named by its caller is %+v (%v)", p, err)
	}
}

func FuzzParse(f *testing.F) {
	text, err := pooldef.Format(three())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := pooldef.Parse(text, "f", "")
		if err != nil {
			if got := fault.From(err).Code; got != fault.PoolFileInvalid && got != fault.StorePoolInvalid {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		again, err := pooldef.Format(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := pooldef.Parse(again, "f", "")
		if err != nil || !p.Same(q) {
			t.Fatalf("%+v became %+v (%v)", p, q, err)
		}
	})
}
