//go:build !linux && !darwin

package machine

// Space is not known here.
func Space(string) (free uint64, known bool) { return 0, false }
