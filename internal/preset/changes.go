package preset

import (
	"slices"

	"muster/internal/gguf"
)

// Change is how a model differs from its preset in one place.
type Change struct {
	Tensor string `json:"tensor,omitempty"` // "" for what lies outside of the tensors
	What   string `json:"what"`             // changed, missing, added or reshaped
}

// Changes lists how the model that has the manifest now differs from what it
// was; none where it is the same revision.
func Changes(was, now *gguf.Manifest) []Change {
	changes := []Change{}
	if was.Keys != now.Keys {
		changes = append(changes, Change{What: "keys of the header changed"})
	}
	for _, t := range was.Tensors {
		n, there := now.Tensor(t.Name)
		switch {
		case !there:
			changes = append(changes, Change{t.Name, "missing"})
		case n.Type != t.Type || !slices.Equal(n.Dims, t.Dims):
			changes = append(changes, Change{t.Name, "reshaped"})
		case n.Digest != t.Digest:
			changes = append(changes, Change{t.Name, "changed"})
		}
	}
	for _, t := range now.Tensors {
		if _, there := was.Tensor(t.Name); !there {
			changes = append(changes, Change{t.Name, "added"})
		}
	}
	return changes
}
