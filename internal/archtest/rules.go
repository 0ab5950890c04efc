package archtest

import "strings"

// binding accepts the packages through which llama.cpp is called without cgo.
var binding = anyOf(
	"github.com/hybridgroup/yzma",
	"github.com/ebitengine/purego",
	"github.com/jupiterrider/ffi",
)

// Rules returns every rule over the import graph.
func Rules() []Rule {
	return []Rule{
		{
			Name:   "every package has a layer",
			Reason: "a package without a place is held to no direction, and a reader finds it on no map",
			Check:  unplaced,
		},
		{
			Name:   "imports go down a layer",
			Reason: "shells know only the small interfaces they declare, so each can be tested and replaced alone; only what composes them sees more than one",
			Check:  upward,
		},
		{
			Name:   "only muster-worker holds the engine",
			Reason: "llama.cpp can abort or fault: it never shares a process with anything that must live",
			Check: func(g Graph) []string {
				return g.imports(noneOf("internal/engine", "cmd/muster-worker"), anyOf("internal/engine"))
			},
		},
		{
			Name:   "only the engine calls the binding",
			Reason: "a struct passed to llama.cpp before the ABI guard has passed is a wild pointer; the guard stands in internal/engine",
			Check: func(g Graph) []string {
				return g.imports(noneOf("internal/engine"), binding)
			},
		},
		{
			Name:   "muster links no binding",
			Reason: "libffi's binding panics at program start where the library is missing, and muster is what has to say so",
			Check: func(g Graph) []string {
				return g.reach(anyOf("cmd/muster"), binding)
			},
		},
		{
			Name:   "muster-worker links no network",
			Reason: "a worker is told everything on its standard input and its bytes go through the arena; it runs code that reads files of strangers",
			Check: func(g Graph) []string {
				return g.reach(anyOf("cmd/muster-worker"), anyOf("net/http", "crypto/tls"))
			},
		},
		{
			Name:   "boot, membership and node know no plan and no gate",
			Reason: "a node with no model and no run becomes available all the same; layers, stages and pools are the orchestrator's business",
			Check: func(g Graph) []string {
				return g.reach(anyOf("internal/node", "internal/member", "internal/core/boot"), anyOf("internal/core/plan", "internal/core/gate"))
			},
		},
		{
			Name:   "only a node reaches the tracker's client",
			Reason: "whoever can call it can register a shard: one way leads there, and the doctor stands on it",
			Check: func(g Graph) []string {
				return g.imports(noneOf("internal/node", "internal/tracker/client"), anyOf("internal/tracker/client"))
			},
		},
		{
			Name:   "products import no test kit",
			Reason: "a stub capability must not be reachable from a release build",
			Check: func(g Graph) []string {
				return g.imports(noneOf("internal/testkit", "internal/archtest", "tools"), anyOf("internal/testkit", "internal/archtest", "tools"))
			},
		},
		{
			Name:   "cores import nothing that acts",
			Reason: "a core is values in and values out: clock, I/O, logging, cancellation, locks and chance come as events or stay in the shell",
			Check: func(g Graph) []string {
				return g.imports(anyOf("internal/core"), func(pkg string) bool {
					return acts(pkg) || !ours(pkg) && strings.Contains(pkg, ".")
				})
			},
		},
	}
}

// acts accepts packages of the standard library that a core must not import.
var acts = anyOf("os", "net", "log", "context", "sync", "syscall", "runtime", "unsafe", "math/rand", "crypto/rand", "io/fs", "path/filepath", "testing")
