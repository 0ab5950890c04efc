package archtest

import (
	"sync"
	"testing"
)

const root = "../.."

// graph is read once: go list runs once a platform.
var graph = sync.OnceValues(func() (Graph, error) { return Load(root) })

func TestTheImportGraphKeepsTheRules(t *testing.T) {
	g, err := graph()
	if err != nil {
		t.Fatal(err)
	}
	if len(g.packages()) == 0 || len(g["internal/wire"]) == 0 {
		t.Fatalf("the graph lacks packages of ours: %v", g.packages())
	}
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			for _, breach := range r.Check(g) {
				t.Errorf("%s\n%s, because %s", breach, r.Name, r.Reason)
			}
		})
	}
}

// sound is a graph in which every rule has something to look at and holds.
var sound = Graph{
	"internal/id":                           {},
	"internal/fault":                        {"fmt"},
	"internal/event":                        {"internal/id", "internal/fault"},
	"internal/core/boot":                    {"internal/event", "time"},
	"internal/core/gate":                    {"internal/event", "time"},
	"internal/core/plan":                    {"internal/fault"},
	"internal/wire":                         {"internal/fault", "io"},
	"internal/arena":                        {"internal/fault", "os"},
	"internal/engine":                       {"internal/wire", "github.com/hybridgroup/yzma/pkg/llama"},
	"internal/worker":                       {"internal/wire", "os/exec"},
	"internal/member":                       {"internal/event", "github.com/hashicorp/memberlist"},
	"internal/chain":                        {"internal/arena", "internal/worker"},
	"internal/node":                         {"internal/core/boot", "internal/worker", "internal/tracker/client"},
	"internal/orch":                         {"internal/core/gate", "internal/core/plan"},
	"internal/testkit":                      {"testing"},
	"internal/testkit/fakes":                {"internal/testkit", "internal/wire"},
	"cmd/muster":                            {"internal/chain", "internal/orch", "net/http"},
	"cmd/muster-worker":                     {"internal/engine", "internal/arena"},
	"tools/faultdoc":                        {"internal/fault"},
	"github.com/hybridgroup/yzma/pkg/llama": {"github.com/ebitengine/purego", "github.com/jupiterrider/ffi"},
}

// breaches has, for each rule, edges that break it when added to sound.
var breaches = map[string][]Graph{
	"every package has a layer": {
		{"internal/util": {}},
	},
	"imports go down a layer": {
		{"internal/id": {"internal/fault"}},         // within the ground
		{"internal/fault": {"internal/wire"}},       // ground to pure
		{"internal/core/plan": {"internal/wire"}},   // within pure
		{"internal/core/gate": {"internal/core/x"}}, // core to core
		{"internal/wire": {"internal/arena"}},       // pure to shell
		{"internal/arena": {"internal/worker"}},     // shell to shell
		{"internal/worker": {"internal/chain"}},     // shell to composition
		{"internal/node": {"internal/chain"}},       // within composition
		{"internal/chain": {"cmd/muster"}},          // composition to program
		{"cmd/muster": {"cmd/muster-worker"}},       // program to program
	},
	"only muster-worker holds the engine": {
		{"internal/chain": {"internal/engine"}},
		{"internal/testkit": {"internal/engine"}},
		{"cmd/muster": {"internal/engine"}},
	},
	"only the engine calls the binding": {
		{"cmd/muster-worker": {"github.com/ebitengine/purego"}},
		{"internal/worker": {"github.com/jupiterrider/ffi"}},
		{"tools/faultdoc": {"github.com/hybridgroup/yzma/pkg/llama"}},
	},
	"muster links no binding": {
		{"internal/orch": {"example.org/x"}, "example.org/x": {"github.com/ebitengine/purego/internal/strings"}},
	},
	"muster-worker links no network": {
		{"internal/engine": {"example.org/x"}, "example.org/x": {"crypto/tls"}},
		{"cmd/muster-worker": {"net/http"}},
	},
	"boot, membership and node know no plan and no gate": {
		{"internal/node": {"internal/core/plan"}},
		{"internal/worker": {"internal/core/gate"}}, // by way of what node composes
		{"internal/member": {"internal/core/gate"}},
		{"internal/core/boot": {"internal/core/plan"}},
	},
	"only a node reaches the tracker's client": {
		{"internal/orch": {"internal/tracker/client"}},
		{"internal/tracker": {"internal/tracker/client"}},
		{"cmd/muster": {"internal/tracker/client"}},
		{"internal/testkit": {"internal/tracker/client"}},
	},
	"products import no test kit": {
		{"internal/chain": {"internal/testkit"}},
		{"cmd/muster": {"internal/testkit/fakes"}},
		{"cmd/muster-worker": {"tools/faultdoc"}},
	},
	"cores import nothing that acts": {
		{"internal/core/gate": {"context"}},
		{"internal/core/gate": {"net/netip"}},
		{"internal/core/gate": {"log/slog"}},
		{"internal/core/plan": {"math/rand/v2"}},
		{"internal/core/plan": {"github.com/google/uuid"}},
	},
}

func TestARuleHoldsOnASoundGraph(t *testing.T) {
	for _, r := range Rules() {
		if got := r.Check(sound); got != nil {
			t.Errorf("%s is broken by a sound graph: %q", r.Name, got)
		}
		if got := r.Check(Graph{}); got != nil {
			t.Errorf("%s is broken by packages that are not there: %q", r.Name, got)
		}
	}
}

func TestEveryRuleCanFail(t *testing.T) {
	for _, r := range Rules() {
		if len(breaches[r.Name]) == 0 {
			t.Errorf("nothing shows that the rule %q can fail", r.Name)
		}
		for _, extra := range breaches[r.Name] {
			if got := r.Check(joined(sound, extra)); got == nil {
				t.Errorf("%s is not broken by %v", r.Name, extra)
			}
		}
	}
}

// joined returns both graphs as one.
func joined(graphs ...Graph) Graph {
	all := Graph{}
	for _, g := range graphs {
		for pkg, imports := range g {
			all[pkg] = append(all[pkg], imports...)
		}
	}
	return all
}
