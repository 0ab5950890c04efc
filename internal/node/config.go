package node

import (
	"crypto/ed25519"
	"strings"
	"time"

	"muster/internal/core/boot"
	"muster/internal/core/stage"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
)

// Config says what a node is. Tell, Status and Log are called from several
// goroutines and must not block; each may be nil.
type Config struct {
	KeyPath   string             // made at the first start
	Key       ed25519.PrivateKey // in place of a file, where set
	DataDir   string             // holds the cache of slices and the status (see ReadLocal); "" keeps slices in files without names, and no status
	Listen    string             // host:port of the endpoint; port 0 takes any
	Advertise []string           // host:port under which others reach it; nil: what it listens on

	Orchestrator     id.NodeID
	OrchestratorAddr string // host:port
	Pool             string // "": the one that the orchestrator has

	Engine      string // folder of the llama.cpp libraries
	Binary      string // muster-worker
	DeferWorker bool   // the worker is started by its first stage
	Memory      uint64 // bytes that it offers at most; 0: all that is free
	ThreadsMost int    // for a recipe that leaves them open; 0: all processors
	Version     string // of the build

	Offer *Offer // what its operator has chosen to hold; nil: nothing

	// GiveUp is how long the node tries to become available, at its start and
	// after a loss, before Run returns the latest fault. 0: for ever.
	GiveUp time.Duration
	// Once ends Run by the first fault of the node: nothing is tried again.
	Once bool

	Tell   func(event.Event)
	Status func(Status)      // after each change
	Log    func(line string) // of worker and SWIM library

	Within boot.Settings  // deadlines of the facts; DeferWorker and Most are taken from above
	Phases stage.Settings // deadlines of a stage

	workerEnv []string // added to the worker's environment
}

// checked fills in what may be left open.
func (c Config) checked() (Config, error) {
	for _, f := range []struct{ flag, value, want string }{
		{"--key", c.KeyPath, "name the file of the node's key"},
		{"--listen", c.Listen, "give host:port, such as 0.0.0.0:6878"},
		{"--orchestrator", c.OrchestratorAddr, "give ID@HOST:PORT, as `muster serve` prints it"},
		{"version", c.Version, "this is a defect of Muster: report it"},
	} {
		if f.value == "" && !(f.flag == "--key" && c.Key != nil) {
			return c, fault.New(fault.NodeConfigInvalid, component, "what", f.flag+" is missing", "want", f.want)
		}
	}
	if c.Orchestrator.IsZero() {
		return c, fault.New(fault.NodeConfigInvalid, component, "what", "the orchestrator's id is missing", "want", "give ID@HOST:PORT, as `muster serve` prints it")
	}
	if len(c.Advertise) > mostAddresses {
		return c, fault.New(fault.NodeConfigInvalid, component, "what", "too many addresses: "+strings.Join(c.Advertise, " "), "want", "advertise 16 at most")
	}
	if c.Tell == nil {
		c.Tell = func(event.Event) {}
	}
	if c.Status == nil {
		c.Status = func(Status) {}
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	c.Within.DeferWorker, c.Within.Most = c.DeferWorker, c.GiveUp
	if c.Phases.Ready <= 0 {
		c.Phases.Ready = readyForAges
	}
	return c, nil
}

const (
	component     = "node"
	mostAddresses = 16

	// readyForAges: how long a ready stage waits for the others is bounded by
	// its run, which tears it down, and by the loss of the orchestrator.
	readyForAges = 10 * 365 * 24 * time.Hour
)
