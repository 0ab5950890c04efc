//go:build unix && !linux

package child

// dieOfSignals leaves the runtime's handlers: a crash in a foreign library
// shows as exit status 2 with a trace on stderr.
func dieOfSignals() {}

// dieWithParent has nothing to ask for: the lifeline alone tells.
func dieWithParent() {}
