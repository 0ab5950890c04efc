package archtest

import (
	"fmt"
	"slices"
)

// layer is how high a package stands. A package imports lower layers only.
type layer int

const (
	ground      layer = iota // words everybody speaks: ids, faults, events
	pure                     // cores and codecs
	shell                    // each owns one kind of resource
	composition              // put shells together
	program                  // main packages
	support                  // for tests and for making things: no product imports it
)

var layerNames = [...]string{"ground", "pure", "shell", "composition", "program", "support"}

func (l layer) String() string { return layerNames[l] }

// places gives each folder its layer; the longest folder that holds a package
// decides.
var places = map[string]layer{
	"internal/id":    ground,
	"internal/fault": ground,
	"internal/event": ground,
	"internal/demo":  ground,

	"internal/core":           pure,
	"internal/wire":           pure,
	"internal/gguf":           pure,
	"internal/pooldef":        pure,
	"internal/gateway/openai": pure,
	"internal/syslib":         pure,

	"internal/arena":     shell,
	"internal/control":   shell,
	"internal/doctor":    shell,
	"internal/edge":      shell,
	"internal/endpoint":  shell,
	"internal/engine":    shell,
	"internal/enginedir": shell,
	"internal/fetch":     shell,
	"internal/identity":  shell,
	"internal/infer":     shell,
	"internal/machine":   shell,
	"internal/member":    shell,
	"internal/preset":    shell,
	"internal/process":   shell,
	"internal/reports":   shell,
	"internal/shard":     shell,
	"internal/store":     shell,
	"internal/tracker":   shell,
	"internal/weights":   shell,
	"internal/worker":    shell,

	"internal/chain":   composition,
	"internal/console": composition,
	"internal/gateway": composition,
	"internal/local":   composition,
	"internal/node":    composition,
	"internal/orch":    composition,
	"internal/rig":     composition,

	"cmd": program,

	"internal/archtest": support,
	"internal/testkit":  support,
	"tools":             support,
}

// sameLayer lists the imports allowed within a layer.
var sameLayer = map[string][]string{
	"internal/core/admit":     {"internal/core/probe", "internal/wire"},
	"internal/event":          {"internal/id", "internal/fault"},
	"internal/fetch":          {"internal/machine"},
	"internal/gateway":        {"internal/gateway/openai"},
	"internal/gateway/openai": {"internal/wire"},
	"internal/local":          {"internal/orch"},
	"internal/preset":         {"internal/process"},
	"internal/reports":        {"internal/doctor"},
	"internal/store":          {"internal/process"},
	"internal/weights":        {"internal/machine"},
}

// placeOf finds a package's folder in places; ok is false where it has none.
func placeOf(pkg string) (folder string, l layer, ok bool) {
	for f, at := range places {
		if within(pkg, f) && len(f) > len(folder) {
			folder, l, ok = f, at, true
		}
	}
	return folder, l, ok
}

// unplaced lists packages that stand in no layer.
func unplaced(g Graph) []string {
	var breaches []string
	for _, pkg := range g.packages() {
		if _, _, ok := placeOf(pkg); !ok {
			breaches = append(breaches, pkg+" has no layer: give it one in internal/archtest/layers.go and in ARCHITECTURE.md")
		}
	}
	return breaches
}

// upward lists imports of ours that do not go down a layer.
func upward(g Graph) []string {
	var breaches []string
	for _, pkg := range g.packages() {
		folder, from, ok := placeOf(pkg)
		if !ok || from == support {
			continue
		}
		for _, target := range slices.Sorted(slices.Values(g[pkg])) {
			if !ours(target) {
				continue
			}
			below, to, ok := placeOf(target)
			inside := below == folder && to != program && folder != "internal/core"
			if ok && to >= from && !inside && !slices.Contains(sameLayer[pkg], target) {
				breaches = append(breaches, fmt.Sprintf("%s (%s) -> %s (%s)", pkg, from, target, to))
			}
		}
	}
	return breaches
}
