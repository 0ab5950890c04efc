package boot

import (
	"time"

	"muster/internal/fault"
)

// Fact is one thing that must be true before a node is available.
type Fact uint8

// The facts, in the order of the checklist.
const (
	Process Fact = iota
	Identity
	Arena
	Worker
	Endpoint
	Control
	Swim
	Provisioning
	factCount
)

// Facts returns every fact, in order.
func Facts() []Fact {
	return []Fact{Process, Identity, Arena, Worker, Endpoint, Control, Swim, Provisioning}
}

// about is what stands fast of a fact.
var about = [factCount]struct {
	name    string
	needs   []Fact
	within  time.Duration
	overdue fault.Code
}{
	Process:      {"process", nil, 2 * time.Second, fault.BootProcessOverdue},
	Identity:     {"identity", []Fact{Endpoint}, 10 * time.Second, fault.BootIdentityOverdue},
	Arena:        {"arena", nil, 5 * time.Second, fault.BootArenaOverdue},
	Worker:       {"worker", []Fact{Arena}, 10 * time.Second, fault.BootWorkerOverdue},
	Endpoint:     {"endpoint", nil, 5 * time.Second, fault.BootEndpointOverdue},
	Control:      {"control", []Fact{Endpoint}, 5 * time.Second, fault.BootControlOverdue},
	Swim:         {"swim", []Fact{Identity, Endpoint}, 10 * time.Second, fault.BootSwimOverdue},
	Provisioning: {"provisioning", []Fact{Process, Identity, Arena, Worker, Endpoint, Control, Swim}, 5 * time.Second, fault.BootProvisioningOverdue},
}

func (f Fact) String() string {
	if f < factCount {
		return about[f].name
	}
	return "unknown"
}

// Needs lists what must hold before the fact's proof can start.
func (f Fact) Needs() []Fact { return about[f].needs }

// Condition is how far a fact has come.
type Condition uint8

// The conditions. A fact holds when it is proven or deferred.
const (
	Pending  Condition = 0  // its needs do not hold yet, or its proof was called off
	Proving  Condition = 10 // asked for, not answered
	Deferred Condition = 20 // the worker alone, by policy
	Proven   Condition = 30
	Failed   Condition = 40
)

func (c Condition) String() string {
	switch c {
	case Proving:
		return "proving"
	case Deferred:
		return "deferred"
	case Proven:
		return "proven"
	case Failed:
		return "failed"
	default:
		return "pending"
	}
}

// Holds reports whether availability may rest on the fact.
func (c Condition) Holds() bool { return c == Proven || c == Deferred }

// Settings are fixed for the life of a node process.
type Settings struct {
	DeferWorker bool                     // the worker is started by its first stage
	Within      [factCount]time.Duration // of each proof; not positive means the usual time
	Most        time.Duration            // of any proof; not positive means as Within says
}

func (s Settings) within(f Fact) time.Duration {
	within := about[f].within
	if s.Within[f] > 0 {
		within = s.Within[f]
	}
	if s.Most > 0 {
		within = min(within, s.Most)
	}
	return within
}
