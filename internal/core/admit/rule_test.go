package admit

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/id"
)

func TestASoundReportOfEachStageIsAccepted(t *testing.T) {
	for _, layers := range [][2]int{first, middle, last, {0, 8}} {
		r := report(1, layers)
		if layers == [2]int{0, 8} {
			r.Checks = append(r.Checks, probe.Check{Name: probe.TopToken, Passed: true})
		}
		wantCode(t, Config{}.Judge(sign(t, 1, r), wantOf(r), soon), "")
	}
}

// move changes one leaf of a report; the codes are what the changed report,
// signed anew, is refused with for a first and for a middle stage.
type move struct {
	change        func(*Report)
	first, middle fault.Code
}

func refused(code fault.Code, change func(*Report)) move { return move{change, code, code} }

var moves = map[string]move{
	"Schema":         refused(fault.AdmitSchemaMismatched, func(r *Report) { r.Schema++ }),
	"Purpose":        refused(fault.AdmitReportInvalid, func(r *Report) { r.Purpose = ForOffer }), // an offer has no run
	"Run":            refused(fault.AdmitRunMismatched, func(r *Report) { r.Run = runOf(9) }),
	"Attempt":        refused(fault.AdmitAttemptMismatched, func(r *Report) { r.Attempt++ }),
	"Pool":           refused(fault.AdmitPoolMismatched, func(r *Report) { r.Pool = "work" }),
	"Epoch":          refused(fault.AdmitEpochMismatched, func(r *Report) { r.Epoch-- }),
	"Orchestrator":   refused(fault.AdmitOrchestratorMismatched, func(r *Report) { r.Orchestrator = nodeOf(201) }),
	"Node":           refused(fault.AdmitNodeMismatched, func(r *Report) { r.Node = nodeOf(2) }),
	"Boot":           refused(fault.AdmitBootMismatched, func(r *Report) { r.Boot[15]++ }),
	"Revision":       refused(fault.AdmitRevisionMismatched, func(r *Report) { r.Revision[31]++ }),
	"Layers[0]":      {func(r *Report) { r.Layers[0]++ }, fault.AdmitReportInvalid, fault.AdmitShardMismatched}, // only a first stage has an embedding
	"Layers[1]":      refused(fault.AdmitShardMismatched, func(r *Report) { r.Layers[1]++ }),
	"Depth":          refused(fault.AdmitModelMismatched, func(r *Report) { r.Depth++ }),
	"Slice":          refused(fault.AdmitSliceMismatched, func(r *Report) { r.Slice[0]++ }),
	"Embedding":      {func(r *Report) { r.Embedding[0]++ }, fault.AdmitSliceMismatched, fault.AdmitReportInvalid},
	"Recipe":         refused(fault.AdmitRecipeMismatched, func(r *Report) { r.Recipe[0]++ }),
	"Backend":        refused(fault.AdmitBackendMismatched, func(r *Report) { r.Backend[0]++ }),
	"Referenced":     refused(fault.AdmitReferenceMismatched, func(r *Report) { r.Referenced = false }),
	"Challenge":      refused(fault.AdmitChallengeMismatched, func(r *Report) { r.Challenge[0]++ }),
	"Sequence":       refused(fault.AdmitReportReplayed, func(r *Report) { r.Sequence-- }),
	"Checks[].Name":  refused(fault.AdmitCheckUnknown, func(r *Report) { r.Checks[0].Name = "mood" }),
	"Checks[].Got":   refused(fault.AdmitCheckFailed, func(r *Report) { r.Checks[0].Got++ }),
	"Checks[].Limit": refused(fault.AdmitCheckFailed, func(r *Report) { r.Checks[0].Limit++ }),
	"Checks[].Passed": refused(fault.AdmitCheckFailed, func(r *Report) {
		r.Checks[0].Passed = false
	}),
	"Capacity.Context":       refused(fault.AdmitCapacityShort, func(r *Report) { r.Capacity.Context-- }),
	"Capacity.Slots":         refused(fault.AdmitCapacityShort, func(r *Report) { r.Capacity.Slots-- }),
	"Capacity.ResidentBytes": refused(fault.AdmitCapacityShort, func(r *Report) { r.Capacity.ResidentBytes++ }),
	"Speed.TokenMicros":      refused(fault.AdmitSpeedMissing, func(r *Report) { r.Speed.TokenMicros = 0 }),
	"Speed.ChunkMicros":      refused(fault.AdmitSpeedMissing, func(r *Report) { r.Speed.ChunkMicros = 0 }),
	"Speed.ChunkTokens":      refused(fault.AdmitSpeedMissing, func(r *Report) { r.Speed.ChunkTokens = 0 }),
	"Age":                    refused(fault.AdmitReportExpired, func(r *Report) { r.Age = 61 * time.Second }),
}

// leaves are the fields of a report down to its values, by their path. Bytes of
// an id are one leaf, and so are entries of a list.
func leaves(v reflect.Value, path string, into map[string]string) {
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			below := path
			if !f.Anonymous {
				if below != "" {
					below += "."
				}
				below += f.Name
			}
			leaves(v.Field(i), below, into)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path+"[]", into)
		}
	case v.Kind() == reflect.Array && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), into)
		}
	default:
		into[path] += fmt.Sprint(v.Interface(), ";")
	}
}

func leavesOf(r Report) map[string]string {
	all := map[string]string{}
	leaves(reflect.ValueOf(r), "", all)
	return all
}

// A field that is new to the report and has no rule fails here.
func TestEachBoundFieldAloneRefusesTheReport(t *testing.T) {
	paths := slices.Sorted(maps.Keys(leavesOf(report(1, middle))))
	if listed := slices.Sorted(maps.Keys(moves)); !slices.Equal(paths, listed) {
		t.Fatalf("a report has the fields\n%q, the rule is shown for\n%q", paths, listed)
	}
	for path, m := range moves {
		for _, layers := range [][2]int{first, middle} {
			t.Run(fmt.Sprintf("%s of %v", path, layers), func(t *testing.T) {
				base := report(1, layers)
				moved := report(1, layers)
				m.change(&moved)
				before, after := leavesOf(base), leavesOf(moved)
				for p := range before {
					if (before[p] != after[p]) != (p == path) {
						t.Errorf("%s: %s became %s", p, before[p], after[p])
					}
				}
				// Signed by whoever it names, whatever Sign thinks of it.
				key := keyOf(1)
				if moved.Node == nodeOf(2) {
					key = keyOf(2)
				}
				s := Signed{Report: moved, Signature: Signature(ed25519.Sign(key, moved.canonical()))}
				code := m.middle
				if layers == first {
					code = m.first
				}
				wantCode(t, Config{}.Judge(s, wantOf(base), soon), code)
			})
		}
	}
}

// Whatever is changed after the signing is refused for its signature, or for
// its shape before.
func TestATamperedReportIsRefused(t *testing.T) {
	base := sign(t, 1, report(1, middle))
	for path, m := range moves {
		s := base
		s.Report.Checks = slices.Clone(s.Report.Checks)
		m.change(&s.Report)
		_, f := Verify(s)
		if f == nil {
			t.Errorf("%s was changed unseen", path)
			continue
		}
		if !slices.Contains([]fault.Code{fault.AdmitSignatureBroken, fault.AdmitReportInvalid, fault.AdmitSchemaMismatched}, f.Code) {
			t.Errorf("%s: %v", path, f)
		}
	}
	for i := range base.Signature {
		s := base
		s.Signature[i] ^= 1
		if _, f := Verify(s); f == nil || f.Code != fault.AdmitSignatureBroken {
			t.Errorf("byte %d of the signature was changed: %v", i, f)
		}
	}
}

func TestAReportForOneShardOpensNoOther(t *testing.T) {
	cases := map[string]struct {
		change func(*Want)
		code   fault.Code
	}{
		"another model":                 {func(w *Want) { w.Depth, w.Revision = 32, digestOf(99) }, fault.AdmitModelMismatched},
		"another revision of the model": {func(w *Want) { w.Revision = digestOf(99) }, fault.AdmitRevisionMismatched},
		"another shard":                 {func(w *Want) { w.Layers = [2]int{3, 7} }, fault.AdmitShardMismatched},
		"another recipe":                {func(w *Want) { w.Recipe = digestOf(99) }, fault.AdmitRecipeMismatched},
		"another backend":               {func(w *Want) { w.Backend = digestOf(99) }, fault.AdmitBackendMismatched},
		"another slice":                 {func(w *Want) { w.Slice = digestOf(99) }, fault.AdmitSliceMismatched},
		"an offer":                      {func(w *Want) { w.Purpose, w.Run, w.Attempt = ForOffer, id.RunID{}, 0 }, fault.AdmitPurposeMismatched},
		"nothing":                       {func(w *Want) { *w = Want{} }, fault.AdmitShardUnwanted},
		"more context":                  {func(w *Want) { w.Context++ }, fault.AdmitCapacityShort},
		"less memory":                   {func(w *Want) { w.ResidentBytes-- }, fault.AdmitCheckFailed},
		"a nearer cosine":               {func(w *Want) { w.Tolerance.Cosine = 0.99999 }, fault.AdmitCheckFailed},
		"a nearer row":                  {func(w *Want) { w.Tolerance.Relative = 0.001 }, fault.AdmitCheckFailed},
		"no tolerance":                  {func(w *Want) { w.Tolerance = probe.Tolerance{} }, fault.AdmitCheckFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := report(1, middle)
			w := wantOf(r)
			c.change(&w)
			wantCode(t, Config{}.Judge(sign(t, 1, r), w, soon), c.code)
		})
	}
}

func TestARefusalNamesFieldWantedAndGot(t *testing.T) {
	r := report(1, middle)
	w := wantOf(r)
	w.Layers = [2]int{3, 8}
	f := Config{}.Judge(sign(t, 1, r), w, soon)
	if f == nil || f.Attr("field") != "layers" || f.Attr("want") != "3:8" || f.Attr("got") != "3:6" {
		t.Errorf("%+v", f)
	}
	if want := "admission: the report is of layers 3:6, wanted are 3:8"; f != nil && f.Error() != want {
		t.Errorf("it says %q, want %q", f, want)
	}
}

func TestEveryCheckMustBeThereOnceAndHold(t *testing.T) {
	for _, layers := range [][2]int{first, last} {
		for i, c := range report(1, layers).Checks {
			cases := map[string]struct {
				change func(*Report)
				code   fault.Code
			}{
				"missing":                    {func(r *Report) { r.Checks = slices.Delete(r.Checks, i, i+1) }, fault.AdmitCheckMissing},
				"twice":                      {func(r *Report) { r.Checks = append(r.Checks, r.Checks[i]) }, fault.AdmitCheckRepeated},
				"failed":                     {func(r *Report) { r.Checks[i].Passed = false }, fault.AdmitCheckFailed},
				"said to pass, and does not": {func(r *Report) { r.Checks[i].Got = failing[c.Name] }, fault.AdmitCheckFailed},
			}
			for name, k := range cases {
				t.Run(fmt.Sprintf("%s %s", c.Name, name), func(t *testing.T) {
					r := report(1, layers)
					k.change(&r)
					wantCode(t, Config{}.Judge(sign(t, 1, r), wantOf(r), soon), k.code)
				})
			}
		}
	}
}

// failing has, for each check, a figure that does not pass.
var failing = map[string]float64{
	probe.Slice: 1, probe.Finite: 1, probe.Cosine: 0.5, probe.Relative: 0.5, probe.TopToken: 1, probe.Repeat: 1e-6, probe.Stepwise: 0.5,
	probe.Sensitive: 0, probe.Rollback: 1e-6, probe.Full: 1023, probe.Memory: 2 << 30, probe.Decode: 0, probe.Prefill: 0,
}

// A node cannot loosen its own limits beyond the judge's.
func TestALooseLimitOfTheReportDoesNotCount(t *testing.T) {
	for name, loose := range map[string][2]float64{
		probe.Cosine: {0.5, 0.4}, probe.Relative: {0.5, 0.6}, probe.Memory: {2 << 30, 4 << 30},
		probe.Repeat: {0.1, 0.2}, probe.Slice: {1, 2},
	} {
		r := report(1, middle)
		i := slices.IndexFunc(r.Checks, func(c probe.Check) bool { return c.Name == name })
		r.Checks[i].Got, r.Checks[i].Limit = loose[0], loose[1]
		t.Run(name, func(t *testing.T) {
			wantCode(t, Config{}.Judge(sign(t, 1, r), wantOf(r), soon), fault.AdmitCheckFailed)
		})
	}
}

func TestFreshMeansThisOrderAndNotTooFarApart(t *testing.T) {
	const s = time.Second
	cases := map[string]struct {
		age  time.Duration
		at   Times
		code fault.Code
	}{
		"at once":                               {0, Times{0, 0, 0}, ""},
		"at the end of the challenge":           {0, Times{160 * s, 100 * s, 160 * s}, ""},
		"a nanosecond after the challenge":      {0, Times{160*s + 1, 100 * s, 160*s + 1}, fault.AdmitChallengeExpired},
		"forward just after the challenge":      {10 * s, Times{110 * s, 100 * s, 110 * s}, ""},
		"forward just before the challenge":     {10*s + 1, Times{110 * s, 100 * s, 110 * s}, fault.AdmitForwardPredated},
		"forward at the bound":                  {60 * s, Times{160 * s, 100 * s, 160 * s}, ""},
		"held back after the signing":           {40 * s, Times{150 * s, 100 * s, 129 * s}, fault.AdmitReportExpired},
		"age beyond the bound":                  {61 * s, soon, fault.AdmitReportExpired},
		"age beyond all bounds":                 {math.MaxInt64, soon, fault.AdmitReportExpired},
		"age below zero":                        {-1, soon, fault.AdmitReportPostdated},
		"age far below zero":                    {math.MinInt64, soon, fault.AdmitReportPostdated},
		"signed after now":                      {0, Times{110 * s, 100 * s, 110*s + 1}, fault.AdmitReportPostdated},
		"signed before the challenge was given": {0, Times{110 * s, 100 * s, 100*s - 1}, fault.AdmitReportPostdated},
		"challenge given after now":             {0, Times{110 * s, 110*s + 1, 110 * s}, fault.AdmitReportPostdated},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := report(1, middle)
			r.Age = c.age
			wantCode(t, Config{}.Judge(sign(t, 1, r), wantOf(r), c.at), c.code)
		})
	}
}

// The figures are configuration, and none of them switches the rule off.
func TestNoFigureLetsAStaleReportIn(t *testing.T) {
	stale := report(1, middle)
	stale.Age = 30 * time.Second
	at := Times{Now: 140 * time.Second, Issued: 100 * time.Second, Signed: 140 * time.Second}
	for name, c := range map[string]Config{
		"shorter reports":    {ReportFor: 20 * time.Second},
		"shorter challenges": {ChallengeFor: 20 * time.Second},
		"negative":           {ReportFor: -1, ChallengeFor: -1},
	} {
		if c.Judge(sign(t, 1, stale), wantOf(stale), at) == nil {
			t.Errorf("%s: a report of 30 s was accepted", name)
		}
	}
	wantCode(t, Config{}.Judge(sign(t, 1, stale), wantOf(stale), at), "")
}
