//go:build amd64 && (linux || darwin)

package engine

// evalFilterPC is the C address of the evaluation filter in assembly: a Go
// callback costs half a microsecond for each of the about 32 nodes of a layer.
var evalFilterPC uintptr

// evalFilter has the signature of ggml_backend_sched_eval_callback in the System V
// ABI and is called by C alone.
func evalFilter()

var _ = evalFilter // only the assembly names it, by address

// filter is the C address of the fastest evaluation callback there is here.
func (l *Library) filter() uintptr { return evalFilterPC }
