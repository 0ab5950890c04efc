package admit

import (
	"fmt"
	"math"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
)

// Want is what a report must say to be accepted. The zero Want is of nothing:
// every report is refused by it.
type Want struct {
	Binding             // matched exactly
	Challenge Challenge // the one that was given; the Book fills it in
	After     uint64    // sequence of the latest report accepted of this boot, 0 for none; the Book fills it in

	Context       int             // least tokens of all slots together
	Slots         int             // least number of slots
	ResidentBytes uint64          // most bytes at full context; 0 where no plan was told any
	Tolerance     probe.Tolerance // of the preset, beside the report's own limits; looked at where Referenced
}

// Times are instants on the judge's clock.
type Times struct {
	Now    time.Duration // of the judgement
	Issued time.Duration // when the challenge was given, or asked for where the judge is the node itself
	Signed time.Duration // when the report was signed, or came in where the judge is not its node
}

// Judge verifies a report and holds it against what is wanted: every bound
// field, every check, capacity, speed and freshness. nil accepts. A refusal
// names the field, what was wanted and what came.
func (c Config) Judge(s Signed, want Want, at Times) *fault.Fault {
	r, f := Verify(s)
	if f != nil {
		return f
	}
	return c.filled().judge(&r, want, at)
}

func (c Config) judge(r *Report, want Want, at Times) *fault.Fault {
	if want.Purpose == "" {
		return fault.New(fault.AdmitShardUnwanted, component)
	}
	for _, look := range []func() *fault.Fault{
		func() *fault.Fault { return match(&r.Binding, &want.Binding) },
		func() *fault.Fault { return identity(r, want) },
		func() *fault.Fault { return checks(r, want) },
		func() *fault.Fault { return enough(r, want) },
		func() *fault.Fault { return c.fresh(r, at) },
	} {
		if f := look(); f != nil {
			return f
		}
	}
	return nil
}

// bound lists the fields that must be equal, with the code of each.
var bound = []struct {
	field string
	code  fault.Code
	of    func(*Binding) any
}{
	{"purpose", fault.AdmitPurposeMismatched, func(b *Binding) any { return b.Purpose }},
	{"orchestrator", fault.AdmitOrchestratorMismatched, func(b *Binding) any { return b.Orchestrator }},
	{"pool", fault.AdmitPoolMismatched, func(b *Binding) any { return b.Pool }},
	{"node", fault.AdmitNodeMismatched, func(b *Binding) any { return b.Node }},
	{"boot", fault.AdmitBootMismatched, func(b *Binding) any { return b.Boot }},
	{"epoch", fault.AdmitEpochMismatched, func(b *Binding) any { return b.Epoch }},
	{"run", fault.AdmitRunMismatched, func(b *Binding) any { return b.Run }},
	{"attempt", fault.AdmitAttemptMismatched, func(b *Binding) any { return b.Attempt }},
	{"depth", fault.AdmitModelMismatched, func(b *Binding) any { return b.Depth }},
	{"revision", fault.AdmitRevisionMismatched, func(b *Binding) any { return b.Revision }},
	{"layers", fault.AdmitShardMismatched, func(b *Binding) any { return layersText(b.Layers) }},
	{"slice", fault.AdmitSliceMismatched, func(b *Binding) any { return b.Slice }},
	{"embedding", fault.AdmitSliceMismatched, func(b *Binding) any { return b.Embedding }},
	{"recipe", fault.AdmitRecipeMismatched, func(b *Binding) any { return b.Recipe }},
	{"backend", fault.AdmitBackendMismatched, func(b *Binding) any { return b.Backend }},
	{"referenced", fault.AdmitReferenceMismatched, func(b *Binding) any { return b.Referenced }},
}

func layersText(l [2]int) string { return fmt.Sprintf("%d:%d", l[0], l[1]) }

func match(got, want *Binding) *fault.Fault {
	for _, b := range bound {
		if g, w := b.of(got), b.of(want); g != w {
			return mismatch(b.code, b.field, w, g)
		}
	}
	return nil
}

// identity looks at what makes a report this one.
func identity(r *Report, want Want) *fault.Fault {
	if r.Challenge != want.Challenge {
		return mismatch(fault.AdmitChallengeMismatched, "challenge", want.Challenge, r.Challenge)
	}
	if r.Sequence <= want.After {
		return mismatch(fault.AdmitReportReplayed, "sequence", want.After, r.Sequence)
	}
	return nil
}

// checks wants each required check once, no other but known ones, and every one
// to hold by its figures, whatever its Passed says.
func checks(r *Report, want Want) *fault.Fault {
	if len(r.Checks) == 0 {
		return fault.New(fault.AdmitChecksEmpty, component, "field", "checks")
	}
	seen := make(map[string]bool, len(r.Checks))
	for _, n := range probe.Names() {
		seen[n] = false
	}
	for _, c := range r.Checks {
		twice, known := seen[c.Name]
		if !known {
			return fault.New(fault.AdmitCheckUnknown, component, "field", c.Name)
		}
		if twice {
			return fault.New(fault.AdmitCheckRepeated, component, "field", c.Name)
		}
		seen[c.Name] = true
	}
	for _, n := range probe.Required(r.Referenced, r.Last()) {
		if !seen[n] {
			return fault.New(fault.AdmitCheckMissing, component, "field", n)
		}
	}
	for _, c := range r.Checks {
		own := probe.Check{Name: c.Name, Got: c.Got, Limit: want.limit(c)}
		if !c.Passed || !c.Holds() || !own.Holds() {
			return mismatch(fault.AdmitCheckFailed, c.Name, own.Limit, c.Got)
		}
	}
	return nil
}

// limit is what the judge itself holds a check against; the report's own limit
// where it knows no better.
func (w *Want) limit(c probe.Check) float64 {
	switch {
	case c.Name == probe.Cosine && w.Referenced:
		return w.Tolerance.Cosine
	case c.Name == probe.Relative && w.Referenced:
		return w.Tolerance.Relative
	case c.Name == probe.Memory && w.ResidentBytes > 0:
		return float64(w.ResidentBytes)
	default:
		return c.Limit
	}
}

// enough looks at capacity and speed.
func enough(r *Report, want Want) *fault.Fault {
	short := func(field string, got, want any) *fault.Fault {
		return mismatch(fault.AdmitCapacityShort, field, want, got)
	}
	switch got := r.Capacity; {
	case got.Context < max(1, want.Context):
		return short("context", got.Context, want.Context)
	case got.Slots < max(1, want.Slots):
		return short("slots", got.Slots, want.Slots)
	case got.ResidentBytes == 0:
		return short("resident_bytes", 0, "more than 0")
	case want.ResidentBytes > 0 && got.ResidentBytes > want.ResidentBytes:
		return short("resident_bytes", got.ResidentBytes, fmt.Sprintf("at most %d", want.ResidentBytes))
	}
	for _, s := range []struct {
		field string
		value int64
	}{{"token_micros", r.Speed.TokenMicros}, {"chunk_micros", r.Speed.ChunkMicros}, {"chunk_tokens", int64(r.Speed.ChunkTokens)}} {
		if s.value == 0 {
			return mismatch(fault.AdmitSpeedMissing, s.field, "more than 0", 0)
		}
	}
	return nil
}

// fresh wants the challenge, the forward, the signing and the judgement in this
// order, and not too far apart.
func (c Config) fresh(r *Report, at Times) *fault.Fault {
	open, signed := at.Now-at.Issued, at.Now-at.Signed
	switch {
	case r.Age < 0:
		return mismatch(fault.AdmitReportPostdated, "age", "0 or more", r.Age)
	case signed < 0 || at.Signed < at.Issued:
		return mismatch(fault.AdmitReportPostdated, "signing", fmt.Sprintf("%s after the challenge at most", open), at.Signed-at.Issued)
	case open > c.ChallengeFor:
		return mismatch(fault.AdmitChallengeExpired, "challenge", c.ChallengeFor, open)
	case r.Age > math.MaxInt64-signed || r.Age+signed > c.ReportFor:
		return mismatch(fault.AdmitReportExpired, "age", c.ReportFor, r.Age+min(signed, math.MaxInt64-r.Age))
	case r.Age > at.Signed-at.Issued:
		return mismatch(fault.AdmitForwardPredated, "age", at.Signed-at.Issued, r.Age)
	}
	return nil
}
