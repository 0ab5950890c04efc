//go:build linux || darwin

package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/internal/fault"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/worker"
)

func TestWhatIsNoReplyEndsTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		do     fakeworker.Act
		text   string
		number int
		what   string
	}{
		"garbage":               {do: fakeworker.SayAndAnswer, text: "llama_init: hello", what: "llama_init"},
		"binary":                {do: fakeworker.SayAndAnswer, text: "\x00\xff\xfe", what: "invalid character"},
		"an empty line":         {do: fakeworker.SayAndAnswer, what: "in"},
		"unknown field":         {do: fakeworker.SayAndAnswer, text: `{"id":2,"extra":1}`, what: "extra"},
		"two values on a line":  {do: fakeworker.SayAndAnswer, text: `{"id":2}{"id":3}`, what: "more than one value"},
		"null":                  {do: fakeworker.SayAndAnswer, text: "null", what: "no fault"},
		"a list":                {do: fakeworker.SayAndAnswer, text: "[1]", what: "array"},
		"a string for a number": {do: fakeworker.SayAndAnswer, text: `{"id":"2"}`, what: "string"},
		"progress of nothing":   {do: fakeworker.SayAndAnswer, text: `{"progress":{"done":1}}`, what: "no fault"},
		"another's answer":      {do: fakeworker.SayAndAnswer, text: `{"id":2,"vocab":{"pieces":[],"eog":[],"bos":1,"template":""}}`, what: "vocab"},
		"two things at once":    {do: fakeworker.SayAndAnswer, text: `{"id":2,"fault":{"code":"x.y"},"progress":{"done":1}}`, what: "two things"},
		"a foreign id":          {do: fakeworker.Foreign, what: "request 1002"},
		"an answer twice":       {do: fakeworker.Twice, what: "request 2"},
		"late progress":         {do: fakeworker.LateProgress, what: "request 2"},
		"closed stdout":         {do: fakeworker.CloseStdout, what: "stdout ended"},
		"a flood of faults":     {do: fakeworker.Unasked, text: string(fault.StageDecodeFailed), number: 100, what: "more faults"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := ends(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: c.do, Text: c.text, Number: c.number}), fault.WorkerProtocolBroken)
			if !strings.Contains(f.Attr("what"), c.what) {
				t.Errorf("what is broken is given as %q", f.Attr("what"))
			}
		})
	}
}

// ends pings the worker of s, which must end it with a fault of code.
func ends(t *testing.T, s worker.Spec, code fault.Code) *fault.Fault {
	t.Helper()
	w, err := worker.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Stop(context.Background()) }()
	_, _ = w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil) // may have been answered before the offence
	await(t, w)
	f := w.Exit()
	if f == nil || f.Code != code || f.Component != "worker 1" {
		t.Fatalf("ended with %v", f)
	}
	return f
}

func await(t *testing.T, w *worker.Worker) {
	t.Helper()
	select {
	case <-w.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the worker lives")
	}
}

func TestHalfALineAtDeathIsADeath(t *testing.T) {
	s := spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Say, Text: `{"id":2`})
	w := start(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := w.Call(ctx, wire.Request{Op: wire.OpPing}, nil); fault.From(err).Code != fault.WorkerCallOverdue {
		t.Errorf("half an answer gave %v", err)
	}
	kill(t, w.PID(), 9)
	await(t, w)
	if f := w.Exit(); f.Code != fault.WorkerKilled || f.Attr("signal") != "SIGKILL" {
		t.Errorf("ended with %v", f)
	}
}

func TestALineOverTheLimitIsRefused(t *testing.T) {
	f := ends(t, spec(t, fakeworker.Knobs{At: fakeworker.On(wire.OpPing), Do: fakeworker.Huge, Number: wire.LineLimit + 1<<20}), fault.WorkerProtocolBroken)
	if !strings.Contains(f.Attr("what"), "67108864 bytes") {
		t.Errorf("what is broken is given as %q", f.Attr("what"))
	}
}

func TestABrokenBootIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		knobs fakeworker.Knobs
		code  fault.Code
	}{
		"garbage before Open": {fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.SayAndAnswer, Text: "ggml"}, fault.WorkerProtocolBroken},
		"garbage for Open":    {fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.SayAndAnswer, Text: "ggml"}, fault.WorkerProtocolBroken},
		"an empty answer":     {fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.SayAndAnswer, Text: `{"id":1}`}, fault.WorkerProtocolBroken},
		"stdin closed":        {fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.CloseStdin}, fault.WorkerExited},
		"typed refusal":       {fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Refuse, Text: string(fault.EngineVersionMismatched)}, fault.EngineVersionMismatched},
		"refusal and death":   {fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Refuse, Text: string(fault.EngineMissing), ThenExit: true}, fault.EngineMissing},
	} {
		t.Run(name, func(t *testing.T) {
			f := live(t, spec(t, c.knobs))
			if f.Code != c.code || f.Component != "worker 1" {
				t.Errorf("got %v (%s)", f, f.Code)
			}
		})
	}
}

func TestFaultsOfThePumpAreTold(t *testing.T) {
	w := start(t, spec(t, fakeworker.Knobs{At: fakeworker.AtIdle, Do: fakeworker.Unasked, Number: 2, Text: string(fault.StageRowsNotFinite)}))
	for range 2 {
		if f := <-w.Faults(); f.Code != fault.StageRowsNotFinite || f.Component != "worker 1" {
			t.Errorf("told %v", f)
		}
	}
	if _, err := w.Call(t.Context(), wire.Request{Op: wire.OpPing}, nil); err != nil {
		t.Errorf("after a fault of the pump the worker does not answer: %v", err)
	}
}
