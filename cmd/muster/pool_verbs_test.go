//go:build unix

package main

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/orch"
	"muster/internal/pooldef"
	"muster/internal/testkit"
)

// nodeNames are those of a pool's nodes, in its order.
func nodeNames(p pooldef.Pool) string {
	all := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		all[i] = n.Name
	}
	return strings.Join(all, " ")
}

// Without an orchestrator the definition is changed in its folder; the epoch
// rises by one with each change, and only then.
func TestAPoolIsDefinedInItsFolder(t *testing.T) {
	b := newBench(t)
	id := b.ids("a", "b", "c", "d")
	data := b.dir + "/orchestrator"
	b.refuses("pool.undefined", "pool", "show", "--data", data)
	b.refuses("pool.undefined", "pool", "add", id[0], "--data", data)
	for _, c := range []struct {
		args  []string
		epoch uint64
		nodes string
	}{
		{[]string{"init", "lab", "--node", id[0] + "=left", "--node", id[1] + "=right"}, 1, "left right"},
		{[]string{"init", "lab", "--node", id[0] + "=left", "--node", id[1] + "=right"}, 1, "left right"},
		{[]string{"add", id[2] + "=back", id[0]}, 2, "left right back"},
		{[]string{"add", id[2]}, 2, "left right back"},
		{[]string{"remove", "right"}, 3, "left back"},
		{[]string{"replace", "left", id[3]}, 4, "left back"},
		{[]string{"replace", "back", id[2] + "=front", "--epoch", "4"}, 5, "left front"},
	} {
		got := b.changed(append(c.args, "--data", data)...)
		if got.Epoch != c.epoch || nodeNames(got.Pool) != c.nodes || got.Name != "lab" {
			t.Fatalf("%v gave %+v", c.args, got)
		}
	}
	if shown := b.does("pool", "show", "--data", data); !strings.HasPrefix(shown, "pool lab, epoch 5: 2 nodes\n  left   "+id[3]+"\n  front  "+id[2]+"\n") {
		t.Errorf("the pool is shown as\n%s", shown)
	}
	for code, args := range map[string][]string{
		"store.pool_changed":       {"add", id[0], "--epoch", "4"},
		"pool.entry_unknown":       {"remove", "left", "nobody"},
		"pool.definition_repeated": {"init", "lab", "--node", id[0]},
		"store.pool_invalid":       {"add", id[0] + "=left"},
		"cli.flag_invalid":         {"add", "left"},
		"cli.argument_unknown":     {"replace", "left"},
		"store.pool_unknown":       {"show", "--pool", "barn"},
		"pool.file_unreadable":     {"init", "--file", "nowhere.toml"},
	} {
		b.refuses(code, append([]string{"pool", "--data", data}, args...)...)
	}
	if p := object[pooldef.Pool](t, b.run("pool", "show", "--json", "--data", data)); p.Epoch != 5 {
		t.Errorf("refused changes left %+v", p)
	}
}

func TestAPoolIsReadBackFromItsFile(t *testing.T) {
	b := newBench(t)
	id := b.ids("a", "b")
	b.does("pool", "init", "lab", "--node", id[0]+"=left", "--node", id[1], "--data", "one")
	file := b.write("pool.toml", []byte(b.does("pool", "show", "--toml", "--data", "one")))
	if again := b.changed("init", "--file", file, "--data", "one"); again.Changed || again.Epoch != 1 {
		t.Errorf("its own file changed a pool: %+v", again)
	}
	one := object[pooldef.Pool](t, b.run("pool", "show", "--json", "--data", "one"))
	two := b.changed("init", "--file", file, "--data", "two")
	if !two.Same(one) || two.Epoch != 1 {
		t.Errorf("%+v was read from the file of %+v", two, one)
	}
	edited, err := os.ReadFile(file)
	must(t, err)
	b.write("pool.toml", append(edited, "places = []\n"...))
	b.refuses("pool.file_invalid", "pool", "init", "--file", file, "--data", "one")
	b.write("pool.toml", []byte("[[node]]\nid = '"+id[1]+"'\naddresses = ['10.0.0.2:6878']\n"))
	b.refuses("store.pool_invalid", "pool", "init", "--file", file, "--data", "three") // without a name
	b.refuses("pool.definition_repeated", "pool", "init", "lab", "--file", file, "--data", "one")
	b.refuses("store.pool_changed", "pool", "init", "lab", "--file", file, "--data", "one", "--epoch", "3")
	if got := b.changed("init", "lab", "--file", file, "--data", "one", "--epoch", "1"); got.Epoch != 2 || len(got.Nodes) != 1 {
		t.Errorf("the file gave %+v", got)
	}
	b.does("pool", "init", "barn", "--data", "one")
	b.refuses("pool.name_missing", "pool", "show", "--data", "one")
	b.denied("pool.name_missing", "serve", "--data", "one", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
}

// Verbs that meet at one folder wait for one another, and none of their changes
// is lost.
func TestChangesAtOnceInAFolder(t *testing.T) {
	b := newBench(t)
	id := b.ids("a", "b", "c", "d")
	b.does("pool", "init", "lab", "--data", "one")
	var all sync.WaitGroup
	got := make([]outcome, len(id))
	for i := range id {
		all.Go(func() { got[i] = b.run("pool", "add", id[i], "--data", "one", "--api", "127.0.0.1:1") })
	}
	all.Wait()
	for _, o := range got {
		if o.exit != 0 {
			t.Errorf("exit %d: %s", o.exit, o.stderr)
		}
	}
	p := object[pooldef.Pool](t, b.run("pool", "show", "--json", "--data", "one"))
	if len(p.Nodes) != len(id) || p.Epoch != uint64(len(id))+1 {
		t.Errorf("%d changes left %+v", len(id), p)
	}
}

// The pool of an orchestrator that runs is changed through it, by its folder or
// its address: the run ends where it needs a node that goes, the node is told
// so, and the next run is formed of the pool as it is then.
func TestThePoolOfARunningOrchestratorIsChanged(t *testing.T) {
	p := newPool(t, 2)
	first := p.serving()
	here := p.dir + "/orchestrator"
	shown := object[pooldef.Pool](t, p.run("pool", "show", "--json"))
	if nodeNames(shown) != "n1 n2" || shown.Epoch != 1 {
		t.Fatalf("the pool is %+v", shown)
	}
	if byFolder := object[pooldef.Pool](t, p.run("pool", "show", "--json", "--data", here)); !byFolder.Same(shown) {
		t.Errorf("by its folder the pool is %+v", byFolder)
	}
	p.denied("pool.unknown", "pool", "show", "--pool", "barn")
	p.denied("pool.definition_repeated", "pool", "init", "pool", "--node", shown.Nodes[0].ID.String())
	p.denied("store.pool_changed", "pool", "remove", "n1", "--epoch", "9", "--data", here)
	orchestrator, _, _ := strings.Cut(p.orchestrator, "@")
	p.denied("pool.definition_invalid", "pool", "add", orchestrator)

	third := p.ids("n3")[0]
	if got := p.changed("add", third+"=n3", "--data", here); got.Epoch != 2 {
		t.Fatalf("adding a node gave %+v", got)
	}
	if s := object[orch.Status](t, p.run("status", "--json")); !s.Serving || s.Run.Run != first.Run.Run || len(s.Nodes) != 3 {
		t.Errorf("a node was added and the run did not go on: %+v", s)
	}
	p.start("n3")
	if got := p.changed("remove", "n2"); got.Epoch != 3 {
		t.Fatalf("removing a node gave %+v", got)
	}
	if err := waitFor(p.nodes["n2"], 20*time.Second); err == nil || p.nodes["n2"].ProcessState.ExitCode() == -1 {
		t.Errorf("the removed node ended by %v, not by a fault", err)
	}
	second := p.serving()
	if second.Run.Run == first.Run.Run || second.Pool.Epoch != 3 {
		t.Errorf("the run after is %+v of epoch %d", second.Run, second.Pool.Epoch)
	}
	for _, st := range second.Run.Stages {
		if st.Name == "n2" {
			t.Error("the removed node holds a stage")
		}
	}
	if got := p.does("events"); !strings.Contains(got, "node.removed") {
		t.Error("the journal does not say why the run ended")
	}
}

// Of two operators who read the same epoch one is told that the other was first.
func TestOfTwoOperatorsTheLaterIsTold(t *testing.T) {
	p := newPool(t, 1)
	id := p.ids("a", "b", "c", "d")
	var all sync.WaitGroup
	got := make([]outcome, len(id))
	for i := range id {
		all.Go(func() { got[i] = p.run("pool", "add", id[i], "--epoch", "1") })
	}
	all.Wait()
	taken := 0
	for _, o := range got {
		switch {
		case o.exit == 0:
			taken++
		case !strings.Contains(o.stderr, "code: store.pool_changed"):
			t.Errorf("exit %d: %s", o.exit, o.stderr)
		}
	}
	now := object[pooldef.Pool](t, p.run("pool", "show", "--json"))
	if taken != 1 || now.Epoch != 2 || len(now.Nodes) != 2 {
		t.Errorf("%d changes of epoch 1 were taken, and the pool is %+v", taken, now)
	}
}

// An orchestrator at the address asked is not taken for that of another folder;
// one that is not named is not guessed.
func TestAnotherFoldersOrchestratorIsNotAsked(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	api := b.leads("one")
	b.leads("other")
	b.denied("pool.folder_mismatched", "pool", "show", "--data", b.dir+"/other", "--api", api)
	if got := b.denied("gateway.orchestrator_unreached", "pool", "show", "--data", b.dir+"/other", "--api", "127.0.0.1:1"); !strings.Contains(got, "in use by process") {
		t.Errorf("it does not say who holds the folder: %s", got)
	}
	if got := b.does("pool", "show", "--data", b.dir+"/one", "--api", api); !strings.Contains(got, "epoch 1: 0 nodes") {
		t.Errorf("its own folder's pool is %s", got)
	}
}

// An orchestrator is given its pool as a file.
func TestAPoolFileIsServed(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	id := b.ids("a")
	file := b.write("pool.toml", []byte("name = 'lab'\n[[node]]\nid = '"+id[0]+"'\nname = 'left'\n"))
	b.refuses("cli.flag_invalid", "serve", "--pool-file", file, "--node", id[0], "--data", b.dir+"/one")
	b.denied("pool.unknown", "pool", "show", "--pool", "barn", "--api", b.leads("one", "--pool-file", file))
	if p := object[pooldef.Pool](t, b.run("pool", "show", "--json", "--api", b.leads("two", "--pool-file", file))); p.Name != "lab" || nodeNames(p) != "left" {
		t.Errorf("it serves %+v", p)
	}
}

// A formation that takes too long is given up by name, and begun again when it
// is asked for.
func TestAFormationIsGivenUpAndBegunAgain(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	b := newBench(t)
	b.refuses("cli.flag_invalid", "serve", "--on-loss", "shrug", "--data", b.dir+"/x")
	b.refuses("cli.flag_invalid", "serve", "--form-within", "-1s", "--data", b.dir+"/x")
	b.env = append(b.env, "MUSTER_API="+b.leads("one", "--node", b.ids("n1")[0]+"=n1", "--form-within", "300ms", "--on-loss", "abort"))
	b.phase("aborted")
	if text := b.does("status"); !strings.Contains(text, "given up") || !strings.Contains(text, "muster form") {
		t.Errorf("status does not say so:\n%s", text)
	}
	b.does("form")
	b.phase("aborted")
	if got := strings.Count(b.does("events"), "pool.formation_overdue"); got != 2 {
		t.Errorf("two formations were given up, the journal has %d:\n%s", got, b.does("events"))
	}
}
