package gguf

// Exported is the model without what only this package reads.
func (m Model) Exported() Model {
	m.period, m.special = 0, 0
	return m
}
