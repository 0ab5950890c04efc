package main

import (
	"errors"
	"testing"
	"time"

	"muster/internal/core/probe"
	"muster/internal/doctor"
	"muster/internal/fault"
	"muster/internal/reports"
	"muster/internal/wire"
)

// wellReport is of a middle stage that nothing is wrong with.
func wellReport(at time.Time) reports.Report {
	f := doctor.Findings{
		Name: "worker", Layers: [2]int{3, 6}, Referenced: true, Context: 4096, Held: 4096,
		DecodeMicros: 1260, PrefillMicros: 65.37, ResidentBytes: 17<<20 + 400<<10, TookMicros: 43210,
	}
	for _, c := range []struct {
		name       string
		got, limit float64
	}{
		{probe.Slice, 0, 0},
		{probe.Finite, 0, 0},
		{probe.Cosine, 0.99993945, 0.99845},
		{probe.Relative, 0.03055, 0.176},
		{probe.Repeat, 0, 0},
		{probe.Stepwise, 0.0021, 0.4502},
		{probe.Sensitive, 1.801, 0},
		{probe.Rollback, 0, 0},
		{probe.Full, 4096, 4096},
		{probe.Memory, 17<<20 + 400<<10, 512 << 20},
		{probe.Decode, 1260, 0},
		{probe.Prefill, 65.37, 0},
	} {
		f.Checks = append(f.Checks, probe.Check{Name: c.name, Passed: probe.Within(c.name, c.got, c.limit), Got: c.got, Limit: c.limit})
	}
	return reports.Report{
		Version: reports.Version, At: at, Model: "tale", Revision: "cc74a1bd38f020d7c9a94e1ccaa5ae55743f32580a812004b1cfb6f4266639db",
		Recipe:   wire.Recipe{Context: 4096, Slots: 2, Chunk: 512, KVType: "f16", FlashAttention: "auto", Repack: true},
		Findings: f,
	}
}

// with changes the figure of a check.
func with(r reports.Report, name string, got float64) reports.Report {
	for i, c := range r.Findings.Checks {
		if c.Name == name {
			r.Findings.Checks[i].Got, r.Findings.Checks[i].Passed = got, probe.Within(name, got, c.Limit)
		}
	}
	r.Failed = r.Findings.Failed()
	return r
}

func TestWhatTheDoctorFoundReadsAtAGlance(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	killed := fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "said", "")
	for name, of := range map[string]func() reports.Report{
		"well": func() reports.Report { return wellReport(now) },
		"itself": func() reports.Report {
			r := wellReport(now)
			r.Findings.Referenced = false
			r.Findings.Checks = append(r.Findings.Checks[:2], r.Findings.Checks[4:]...)
			return r
		},
		"projected": func() reports.Report {
			r := wellReport(now)
			r.Findings.Held = 1026
			full := &r.Findings.Checks[8]
			full.Got, full.Limit = 1026, 1026
			return r
		},
		"other_numbers": func() reports.Report {
			return with(with(wellReport(now), probe.Relative, 10758.58), probe.Cosine, -0.28)
		},
		"not_finite": func() reports.Report {
			r := wellReport(now)
			r.Findings.Checks, r.Findings.Held = r.Findings.Checks[:2], 0
			r = with(r, probe.Finite, 1)
			r.Failed = r.Failed.Because(errors.New("worker: the row 3 of slot 0 holds NaN"))
			r.Findings.Fault = r.Failed
			return r
		},
		"killed": func() reports.Report {
			r := wellReport(now)
			r.Findings.Checks, r.Findings.Held = r.Findings.Checks[:4], 0
			r.Findings.Fault = fault.New(fault.DoctorWorkerLost, "worker").Because(killed)
			r.Failed = r.Findings.Fault
			return r
		},
		"not_loaded": func() reports.Report {
			r := wellReport(now)
			r.Findings = doctor.Findings{Layers: [2]int{3, 6}, Context: 4096}
			r.Failed = fault.New(fault.GGUFDataChanged, "gguf", "path", "/models/tale.gguf", "tensor", "blk.3.attn_q.weight")
			return r
		},
	} {
		t.Run(name, func(t *testing.T) { looksLike(t, "doctor", name, reportText(of())) })
	}
	kept := []reports.Report{with(wellReport(now.Add(-3*time.Minute)), probe.Repeat, 0.25), wellReport(now.Add(-2 * time.Hour)), wellReport(now.Add(-50 * time.Hour))}
	t.Run("kept", func(t *testing.T) { looksLike(t, "doctor", "kept", keptText(kept, 1, now)) })
}

func TestThisMachineReadsAtAGlance(t *testing.T) {
	memory := machineFact{Name: "memory", State: provenFact, Detail: "22.7 GiB of 23.5 GiB free"}
	lost := fault.New(fault.EngineMissing, "", "path", "/opt/engine", "what", "there is no libllama")
	for name, facts := range map[string][]machineFact{
		"machine_well": {
			memory,
			{Name: "engine", State: provenFact, Detail: "/opt/engine\n1eba02 libggml.so\na1e1a2 libllama.so"},
			{Name: "worker", State: provenFact, Detail: "llama.cpp 0.4.0-dev\ncpu CPU: a processor, 22.7 GiB of 23.5 GiB free"},
			{Name: "forward", State: provenFact, Detail: "tale, layers 0 to 7: 13 checks passed, 0.31 ms a token"},
		},
		"machine_ill": {
			memory,
			{Name: "engine", State: failedFact, Detail: lost.Error(), Fault: lost},
			{Name: "worker", State: untriedFact, Detail: "not tried: it needs the engine"},
		},
	} {
		t.Run(name, func(t *testing.T) { looksLike(t, "doctor", name, machineText(facts)) })
	}
}

func TestLayersAreReadFromTheFlag(t *testing.T) {
	for text, want := range map[string][2]int{"": {0, 8}, "2:5": {2, 5}, "0:8": {0, 8}} {
		if got, err := layersOf(text, 8); err != nil || got.Start != want[0] || got.End != want[1] {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"3", "3:", ":3", "3:3", "5:2", "-1:2", "2:9", "a:b", "1:2:3"} {
		if _, err := layersOf(text, 8); !errors.Is(err, fault.CLIFlagInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
