//go:build !amd64 || !(linux || darwin)

package engine

// filter is the C address of the fastest evaluation callback there is here.
func (l *Library) filter() uintptr { return l.evalCallback }
