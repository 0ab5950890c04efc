//go:build !linux

package machine

// MeasureMemory has no figures here yet; callers then plan without them.
func MeasureMemory() (Memory, bool) { return Memory{}, false }
