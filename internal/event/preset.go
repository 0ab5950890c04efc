package event

// ReferenceProgressed: a model's reference is being computed, part by part.
type ReferenceProgressed struct {
	Layers [2]int `json:"layers"` // [start,end) of the part
	Done   int    `json:"done"`   // tokens that have passed a part
	Total  int    `json:"total"`
}

// Name implements Event.
func (ReferenceProgressed) Name() string { return "preset.reference_progressed" }
