package gate_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/internal/core/gate"
	"muster/internal/fault"
	"muster/internal/id"
)

// The little language of the transcripts. A line is "[time] verb words": the
// time is an instant (1.5s), a step from the last (+1ms) or absent. A node at a
// boot is written a/1, a run r1.
//
//	pool 2 a b          PoolDefined        known a/1 [addr]   NodeKnown
//	swim a/1 suspect 3  SwimSeen           available a/1 [n]  NodeAvailable
//	faulted a/1 [n]     NodeFaulted        dialled a/1 [bad|addr]  EndpointDialled
//	contact a/1 [age]   ContactMade        answer a/1 1       NonceAnswered
//	holder-answers 1 a/1, holder-gone 1 a/1, view, health bad|well, tick
//	commit r1 epoch=1 round=1 a/1 b/1      ended r1           form
//	up a/1              all five facts of a node at once
//	calm 2s             until then: every 100 ms a reading of the view, a contact
//	                    with every node that was up, and a tick
//	answers 1 a/1 b/1   several answers at one instant
type script struct {
	gate *gate.Gate
	now  time.Duration
	up   []string // nodes at boots that answer while it is calm
	out  strings.Builder
	tell func(gate.Event, time.Duration) // nil, or hears every step
	all  []gate.Effect
}

const beat = 100 * time.Millisecond

func config() gate.Config {
	c := gate.Local()
	c.Self = node("self")
	c.Window = time.Second
	return c
}

func node(name string) id.NodeID {
	var n id.NodeID
	copy(n[:], name)
	return n
}

// boot makes a boot id; a/- is of no boot.
func boot(of string, n string) id.BootID {
	var b id.BootID
	if n == "-" {
		return b
	}
	copy(b[:], of+"#"+n)
	return b
}

func run(name string) id.RunID {
	var r id.RunID
	copy(r[:], name)
	return r
}

// at reads a/1.
func at(word string) (id.NodeID, id.BootID) {
	name, n, _ := strings.Cut(word, "/")
	return node(name), boot(name, n)
}

func nameOf(n id.NodeID) string { return strings.TrimRight(string(n[:]), "\x00") }

func bootOf(b id.BootID) string {
	if b.IsZero() {
		return "-"
	}
	_, n, _ := strings.Cut(strings.TrimRight(string(b[:]), "\x00"), "#")
	return n
}

func (s *script) step(e gate.Event) {
	if s.tell != nil {
		s.tell(e, s.now)
	}
	for _, effect := range s.gate.Step(e, s.now) {
		s.all = append(s.all, effect)
		if line := show(effect); line != "" {
			fmt.Fprintf(&s.out, "%-7s %s\n", s.now, line)
		}
	}
}

func (s *script) line(line string) error {
	words := strings.Fields(line)
	if len(words) > 0 {
		if d, err := time.ParseDuration(strings.TrimPrefix(words[0], "+")); err == nil {
			if strings.HasPrefix(words[0], "+") {
				d += s.now
			}
			s.now = d
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return nil
	}
	return s.verb(words[0], words[1:])
}

func (s *script) verb(verb string, args []string) error {
	arg := func(i int, otherwise string) string {
		if i < len(args) {
			return args[i]
		}
		return otherwise
	}
	n, b := at(arg(0, ""))
	address := nameOf(n) + ":6878"
	switch verb {
	case "pool":
		e := gate.PoolDefined{Epoch: number(arg(0, ""))}
		for _, name := range args[1:] {
			e.Members = append(e.Members, gate.Member{ID: node(name), Name: name})
		}
		s.step(e)
	case "known":
		s.step(gate.NodeKnown{Node: n, Boot: b, Endpoint: arg(1, address)})
	case "swim":
		state := slices.Index([]string{"unknown", "alive", "suspect", "dead", "left"}, arg(1, ""))
		s.step(gate.SwimSeen{Node: n, Boot: b, State: gate.SwimState(state), Incarnation: uint32(number(arg(2, "1")))})
	case "available":
		s.step(gate.NodeAvailable{Node: n, Boot: b, Attempt: uint32(number(arg(1, "1")))})
	case "faulted":
		s.step(gate.NodeFaulted{Node: n, Boot: b, Attempt: uint32(number(arg(1, "1"))), Fault: fault.New(fault.WorkerKilled, "worker", "signal", "KILL")})
	case "dialled":
		e := gate.EndpointDialled{Node: n, Boot: b, Endpoint: arg(1, address)}
		if arg(1, "") == "bad" {
			e.Endpoint, e.Fault = arg(2, address), fault.New(fault.ArenaClosed, "endpoint")
		}
		s.step(e)
	case "contact":
		age, err := time.ParseDuration(arg(1, "0s"))
		if err != nil {
			return err
		}
		s.step(gate.ContactMade{Node: n, Boot: b, Age: age})
	case "answer":
		s.step(gate.NonceAnswered{Node: n, Boot: b, Round: number(arg(1, ""))})
	case "answers":
		for _, a := range args[1:] {
			n, b := at(a)
			s.step(gate.NonceAnswered{Node: n, Boot: b, Round: number(args[0])})
		}
	case "holder-answers", "holder-gone":
		_, b := at(arg(1, ""))
		if verb == "holder-gone" {
			s.step(gate.HolderGone{Ask: number(args[0]), Boot: b})
		} else {
			s.step(gate.HolderAnswered{Ask: number(args[0]), Boot: b})
		}
	case "view":
		s.step(gate.ViewRead{})
	case "health":
		s.step(gate.HealthSeen{Bad: arg(0, "") == "bad"})
	case "commit":
		s.step(commitOf(args))
	case "ended":
		s.step(gate.RunEnded{Run: run(arg(0, ""))})
	case "form":
		s.step(gate.FormationAsked{})
	case "tick":
		s.step(gate.Tick{})
	case "up":
		for _, a := range args {
			s.bringUp(a)
		}
	case "down":
		s.up = slices.DeleteFunc(s.up, func(u string) bool { return slices.Contains(args, u) })
	case "calm":
		until, err := time.ParseDuration(strings.TrimPrefix(arg(0, ""), "+"))
		if strings.HasPrefix(arg(0, ""), "+") {
			until += s.now
		}
		s.calm(until)
		return err
	default:
		return fmt.Errorf("no verb %q", verb)
	}
	return nil
}

func (s *script) bringUp(word string) {
	n, b := at(word)
	address := nameOf(n) + ":6878"
	s.step(gate.NodeKnown{Node: n, Boot: b, Endpoint: address})
	s.step(gate.SwimSeen{Node: n, Boot: b, State: gate.SwimAlive, Incarnation: 1})
	s.step(gate.NodeAvailable{Node: n, Boot: b, Attempt: 1})
	s.step(gate.EndpointDialled{Node: n, Boot: b, Endpoint: address})
	s.step(gate.ContactMade{Node: n, Boot: b})
	if !slices.Contains(s.up, word) {
		s.up = append(s.up, word)
	}
}

func (s *script) calm(until time.Duration) {
	for {
		s.step(gate.ViewRead{})
		for _, u := range s.up {
			n, b := at(u)
			s.step(gate.ContactMade{Node: n, Boot: b})
		}
		s.step(gate.Tick{})
		if s.now+beat > until {
			break
		}
		s.now += beat
	}
	if s.now < until {
		s.now = until
		s.step(gate.Tick{})
	}
}

func commitOf(args []string) gate.CommitAsked {
	e := gate.CommitAsked{Run: run(args[0])}
	for _, a := range args[1:] {
		if key, value, ok := strings.Cut(a, "="); ok {
			if key == "epoch" {
				e.Epoch = number(value)
			} else {
				e.Round = number(value)
			}
			continue
		}
		n, b := at(a)
		e.Nodes = append(e.Nodes, gate.Booted{Node: n, Boot: b})
	}
	return e
}

func number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func at1(b gate.Booted) string { return nameOf(b.Node) + "/" + bootOf(b.Boot) }

func booted(all []gate.Booted) string {
	var words []string
	for _, b := range all {
		words = append(words, at1(b))
	}
	return strings.Join(words, " ")
}

// show words an effect, "" for those that every transcript would be full of.
func show(e gate.Effect) string {
	switch e := e.(type) {
	case gate.PhaseChanged:
		return fmt.Sprintf("%s -> %s", e.From, e.To)
	case gate.AskFacts:
		var names []string
		for _, n := range e.Nodes {
			names = append(names, nameOf(n))
		}
		return "AskFacts " + strings.Join(names, " ")
	case gate.DialBack:
		return "DialBack " + at1(e.Booted) + " at " + e.Endpoint
	case gate.AskHolder:
		return fmt.Sprintf("AskHolder %d %s at %q, rival %s at %q", e.Ask, at1(e.Holder), e.Holder.Endpoint, at1(e.Rival), e.Rival.Endpoint)
	case gate.RivalRefused:
		return fmt.Sprintf("RivalRefused %s: %s", at1(e.Rival), words(e.Fault))
	case gate.BootReplaced:
		return fmt.Sprintf("BootReplaced %s, formerly %s", at1(e.Booted), bootOf(e.Former))
	case gate.AskNonce:
		return fmt.Sprintf("AskNonce round %d: %s", e.Round, booted(e.Members))
	case gate.PoolReady:
		return fmt.Sprintf("PoolReady epoch %d round %d: %s", e.Epoch, e.Round, booted(e.Members))
	case gate.PoolLost:
		return "PoolLost " + words(e.Fault)
	case gate.PoolAborted:
		return "PoolAborted " + words(e.Fault)
	case gate.PoolRefused:
		return "PoolRefused " + words(e.Fault)
	case gate.CommitGranted:
		return "CommitGranted " + runName(e.Run)
	case gate.CommitRefused:
		return "CommitRefused " + runName(e.Run) + ": " + words(e.Fault)
	case gate.RunFaulted:
		return fmt.Sprintf("RunFaulted %s node %s: %s", runName(e.Run), either(nameOf(e.Node), "-"), words(e.Fault))
	}
	return ""
}

func runName(r id.RunID) string { return strings.TrimRight(string(r[:]), "\x00") }

func either(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// words is a fault's code chain and first sentence, without short ids.
func words(f *fault.Fault) string {
	s := string(f.Code)
	for cause := f.Cause; cause != nil; {
		inner := fault.From(cause)
		s += " <- " + string(inner.Code)
		cause = inner.Cause
	}
	if what := f.Attr("what"); what != "" {
		s += " (" + what + ")"
	}
	return s
}

func newScript(c gate.Config) *script { return &script{gate: gate.New(c)} }

// play runs lines and fails the test on one that is not understood.
func (s *script) play(t testing.TB, lines ...string) *script {
	t.Helper()
	for _, l := range lines {
		if err := s.line(l); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
	}
	return s
}
