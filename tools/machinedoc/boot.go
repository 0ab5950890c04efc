package main

import (
	"time"

	"muster/internal/core/boot"
	"muster/internal/fault"
)

func bootMachine() machine {
	why := fault.New(fault.InternalUnexpected, "")
	return machine{
		name:   "boot",
		intro:  "Node boot. In proving, every fact but provisioning is proven, and its proof has been asked for.",
		phases: texts(boot.Phases()),
		kinds:  anys(boot.Events()),
		rows: []row{
			{event: boot.AttemptStarted{Attempt: 2}, when: "a higher number"},
			{event: boot.AttemptStarted{Attempt: 1}, when: "the first number"},
			{event: boot.FactProven{Attempt: 1, Fact: boot.Provisioning}, when: "the last"},
			{event: boot.FactProven{Attempt: 1, Fact: boot.Arena}, when: "told again"},
			{event: boot.FactProven{Attempt: 9, Fact: boot.Provisioning}, when: "of another attempt"},
			{event: boot.FactFailed{Attempt: 1, Fact: boot.Provisioning, Fault: why}},
			{event: boot.ResourceLost{Attempt: 1, Fact: boot.Arena, Fault: why}},
			{event: boot.LeaveAsked{}},
			{event: boot.Tick{}, when: due},
		},
		try: func(phase int, r row) (string, []any) {
			s := bootIn(boot.Phases()[phase])
			var effects []boot.Effect
			if r.event != nil {
				now := time.Duration(0)
				if r.when == due {
					now = time.Hour
				}
				s, effects = boot.Step(s, r.event.(boot.Event), now)
			}
			return s.Phase.String(), anys(effects)
		},
	}
}

func bootIn(p boot.Phase) boot.State {
	s := boot.New(boot.Settings{})
	step := func(e boot.Event) { s, _ = boot.Step(s, e, 0) }
	if p == boot.Idle {
		return s
	}
	step(boot.AttemptStarted{Attempt: 1})
	for range boot.Facts() {
		for _, f := range boot.Facts() {
			if f != boot.Provisioning || p == boot.Available {
				step(boot.FactProven{Attempt: 1, Fact: f})
			}
		}
	}
	switch p {
	case boot.Faulted:
		step(boot.ResourceLost{Attempt: 1, Fact: boot.Arena})
	case boot.Left:
		step(boot.LeaveAsked{})
	default:
	}
	return s
}
