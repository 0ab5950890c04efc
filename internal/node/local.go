package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/internal/fault"
	"muster/internal/process"
)

// statusName is of the file in the node's folder. A file, and not a socket: it
// is read also when the node has ended or does not answer, with its last fault.
const statusName = "status.json"

// Local is a node's status as it lies in its folder, for whoever is at its
// machine.
type Local struct {
	Version      string       `json:"version"` // of the build
	Process      process.Mark `json:"process"` // that told it
	Orchestrator string       `json:"orchestrator"`
	Pool         string       `json:"pool,omitempty"` // "": the one that the orchestrator has
	Deferred     bool         `json:"deferred"`       // by policy the worker is started by the first stage
	Told         time.Time    `json:"told"`           // by the machine's clock, for people to read
	Status       Status       `json:"status"`
	Loss         *Loss        `json:"loss,omitempty"`  // the latest of this process
	Ended        *Ended       `json:"ended,omitempty"` // nil while it runs, and where it was killed
}

// Loss is what ended an attempt.
type Loss struct {
	Attempt uint32       `json:"attempt"`
	At      time.Time    `json:"at"`
	Fault   *fault.Fault `json:"fault"`
}

// Ended is how the process ended by itself.
type Ended struct {
	Fault *fault.Fault `json:"fault,omitempty"` // nil where it was asked to
}

// mostStatus is more bytes than any status has.
const mostStatus = 1 << 20

// ReadLocal reads the status that a node keeps in its folder. Faults:
// node.status_missing, node.status_unreadable.
func ReadLocal(dir string) (l Local, err error) {
	path := filepath.Join(dir, statusName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, fault.New(fault.NodeStatusMissing, component, "path", dir)
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostStatus) {
		err = errors.New("it is no file that a node has written")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && (l.Process.PID <= 0 || l.Told.IsZero()) {
		err = errors.New("it does not say which process wrote it, and when")
	}
	if err != nil {
		return l, fault.New(fault.NodeStatusUnreadable, component, "path", path).Because(err)
	}
	return l, nil
}

// write puts the status into the folder, whole or not at all.
func (l Local) write(dir string) error {
	path := filepath.Join(dir, statusName)
	refuse := func(err error) error {
		return fault.New(fault.NodeStatusUnwritten, component, "path", path).Because(err)
	}
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return refuse(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return refuse(err)
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o600); err != nil {
		_ = os.Remove(path + ".new") // what there is of it is of no use
		return refuse(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return refuse(err)
	}
	return nil
}
