package orch

import (
	"crypto/ed25519"
	"fmt"
	"time"

	"muster/internal/core/gate"
	"muster/internal/core/run"
	"muster/internal/demo"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/member"
	"muster/internal/store"
	"muster/internal/wire"
)

// Policy is what follows a loss.
type Policy struct {
	Loss      gate.Policy   // before a plan is committed
	Formation time.Duration // to become ready; 0: without end
	// Once forms no run after the first has ended; else the next is formed as
	// soon as the pool is ready again. Stop ends either.
	Once bool
}

// Model names the weights.
type Model struct {
	Name string // for people; demo.Name without a path is the built-in model
	Path string // of the GGUF file on this machine, or of its first part
}

// Config says what an orchestrator is.
type Config struct {
	KeyPath string             // made where absent
	Key     ed25519.PrivateKey // in place of a file, where set
	DataDir string             // of the store and the cache; "" keeps both in memory
	Listen  string             // host:port of UDP; port 0 takes any
	Version string             // of the build

	// Pool is what the operator intends. Where Nodes is nil the stored
	// definition of that name counts, or an empty pool; where Name is "" the
	// one that is stored.
	Pool store.Pool

	Model  Model
	Recipe wire.Recipe // Context 0: as much as the model was trained for, up to 4096
	Stages [2]int      // least and most stages of a plan; 0: no bound
	Cuts   []int       // layers at which to cut; the first nodes of the pool hold the parts, in its order

	Profile  string        // local, lan or wan
	Window   time.Duration // convergence window; 0: the floor of the profile
	Policy   Policy
	Settings run.Settings // deadlines of a run's phases
	Step     StepBounds
	Drain    time.Duration // how long Stop and Complete let running answers go on; 0: 10 s

	Engine string // folder of the llama.cpp libraries
	Binary string // muster-worker, for the tokenizer

	Tell func(event.Event)            // must not block; nil tells nobody
	Log  func(component, line string) // lines of the tokenizer's engine and of memberlist; nil drops them
}

// StepBounds say when a step is overdue: over Floor and Factor times its
// measured time.
type StepBounds struct {
	Floor  time.Duration // default 5 s
	Factor int           // default 20
}

// figures are the settled settings of gate and membership.
type figures struct {
	profile member.Profile
	gate    gate.Config
}

// settle fills in what is left open and refuses what cannot be.
func (c *Config) settle() (figures, error) {
	if c.Profile == "" {
		c.Profile = "lan"
	}
	profile, err := member.ParseProfile(c.Profile)
	if err != nil {
		return figures{}, err
	}
	window, err := profile.Window(c.Window)
	if err != nil {
		return figures{}, err
	}
	g := map[string]func() gate.Config{"local": gate.Local, "lan": gate.LAN, "wan": gate.WAN}[profile.Name]()
	g.Window, g.LossPolicy, g.Formation = window, c.Policy.Loss, c.Policy.Formation
	if c.Step.Floor <= 0 {
		c.Step.Floor = 5 * time.Second
	}
	if c.Step.Factor <= 0 {
		c.Step.Factor = 20
	}
	if c.Drain <= 0 {
		c.Drain = drainWithin
	}
	if c.Tell == nil {
		c.Tell = func(event.Event) {}
	}
	if c.Log == nil {
		c.Log = func(string, string) {}
	}
	if c.Model.Name == "" && c.Model.Path == "" {
		c.Model.Name = demo.Name
	}
	if c.Model.Name == "" {
		c.Model.Name = c.Model.Path
	}
	return figures{profile: profile, gate: g}, c.refuse()
}

func (c *Config) refuse() error {
	if c.KeyPath == "" && c.Key == nil {
		return fault.New(fault.OrchConfigInvalid, component, "field", "key path", "value", "empty", "want", "name the file of the orchestrator's key")
	}
	least, most := c.Stages[0], c.Stages[1]
	if least < 0 || most < 0 || most > 0 && least > most {
		return fault.New(fault.OrchConfigInvalid, component, "field", "stages", "value", fmt.Sprintf("%d to %d", least, most),
			"want", "give the least and the most stages, 0 for no bound")
	}
	return nil
}

const component = "orchestrator"
