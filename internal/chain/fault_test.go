//go:build unix

package chain

import (
	"context"
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/infer"
	"muster/internal/shard"
	"muster/internal/testkit"
	"muster/internal/wire"
)

// strike starts a tale on three workers, calls hit once some tokens have come,
// and returns the fault with which the answer ended.
func strike(t *testing.T, c *Chain, hit func()) *fault.Fault {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	told := 0
	start := time.Now()
	_, err := c.Generate(ctx, infer.Request{Prompt: promptOf(t, c, 20), Sampling: infer.Greedy(), Ends: func(int32) bool { return false }},
		func(string, wire.Answer) error {
			if told++; told == 5 {
				start = time.Now()
				hit()
			}
			return nil
		})
	if err == nil {
		t.Fatal("the answer ended well")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the fault came after %s", took)
	}
	return fault.From(err)
}

func TestALostWorkerEndsTheAnswerByName(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV} {
		for victim := range 3 {
			t.Run(sig.String(), func(t *testing.T) {
				testkit.Leaks(t)
				c := start(t, config(t, stories(), 3))
				f := strike(t, c, func() { kill(t, c, victim, sig) })
				if f.Code != fault.WorkerKilled || f.Component != workerName(victim) || f.Attr("signal") != signalName(sig) {
					t.Errorf("fault %q names %q, signal %q", f.Code, f.Component, f.Attr("signal"))
				}
				if _, err := c.Generate(t.Context(), infer.Request{Prompt: []int32{1}, Sampling: infer.Greedy()}, nil); !errors.Is(err, fault.WorkerKilled) {
					t.Errorf("a later answer ended with %v", err)
				}
			})
		}
	}
}

func signalName(s syscall.Signal) string {
	return map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV", syscall.SIGSTOP: "SIGSTOP"}[s]
}

func kill(t *testing.T, c *Chain, victim int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(c.PIDs()[victim], sig); err != nil {
		t.Error(err)
	}
}

func TestAStoppedWorkerIsFoundByItsOwedStep(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	for victim := range 3 {
		t.Run(workerName(victim), func(t *testing.T) {
			testkit.Leaks(t)
			c := start(t, config(t, stories(), 3))
			f := strike(t, c, func() { kill(t, c, victim, syscall.SIGSTOP) })
			if f.Code != fault.WorkerStopped || f.Component != workerName(victim) || f.Attr("signal") != "SIGSTOP" {
				t.Errorf("fault %q names %q, signal %q", f.Code, f.Component, f.Attr("signal"))
			}
		})
	}
}

// A worker that is stopped while it starts is named too, and not only after
// the whole time that a load may take.
func TestAWorkerStoppedWhileItLoadsIsNamed(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	testkit.Leaks(t)
	cfg := config(t, stories(), 3)
	cfg.Tell = func(e event.Event) {
		if w, ok := e.(event.WorkerStarted); ok && w.Worker == workerName(1) {
			if err := syscall.Kill(w.PID, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := Start(ctx, cfg)
	if f := fault.From(err); f == nil || f.Code != fault.WorkerStopped || f.Component != workerName(1) {
		t.Fatalf("ended with %v", err)
	}
}

// tapped starts a chain of two workers with this process between them: alter
// sees every record of rows on its way.
func tapped(t *testing.T, alter func(*wire.Record)) *Chain {
	t.Helper()
	cfg := config(t, stories(), 2)
	c := newChain(cfg)
	t.Cleanup(c.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, c.prepare(ctx))
	must(t, c.layRings(leastRows))
	second, err := c.addRing(leastRows)
	must(t, err)
	between := c.into[1]
	c.into[1] = second
	must(t, c.spawn(ctx))
	must(t, c.load(ctx))
	must(t, c.join(ctx))
	in, err := between.Consumer()
	must(t, err)
	out, err := second.Producer()
	must(t, err)
	tapCtx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var r wire.Record
		lim := shard.Limits(c.cfg.Recipe, c.model.Width, c.model.Vocabulary)
		for wire.ReadRecord(in.Reader(tapCtx), lim, &r) == nil {
			in.Done()
			alter(&r)
			b, err := r.Append(nil)
			if err != nil || out.Write(tapCtx, b) != nil {
				return
			}
			out.Commit()
		}
	}()
	t.Cleanup(func() {
		end()
		<-done
		must(t, in.Detach())
		must(t, out.Detach())
	})
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRowsThatAreNotFiniteEndTheAnswer(t *testing.T) {
	for name, value := range map[string]float32{"NaN": float32(math.NaN()), "+Inf": float32(math.Inf(1)), "-Inf": float32(math.Inf(-1))} {
		t.Run(name, func(t *testing.T) {
			c := tapped(t, func(r *wire.Record) {
				if r.Items[0].Position == 8 {
					r.Rows[3] = value
				}
			})
			var told []int32
			_, err := c.Generate(t.Context(), infer.Request{Prompt: promptOf(t, c, 5), Sampling: infer.Greedy(), MaxTokens: 20},
				func(_ string, a wire.Answer) error {
					told = append(told, a.Token)
					return nil
				})
			f := fault.From(err)
			if f == nil || f.Code != fault.StageRowsNotFinite || f.Component != "worker 2" {
				t.Fatalf("ended with %v", err)
			}
			// Position 8 carries the fourth token; its own answer is the fifth.
			if len(told) != 4 {
				t.Errorf("%d tokens were told, want the 4 before the bad row", len(told))
			}
		})
	}
}

func TestATapThatAltersNothingChangesNothing(t *testing.T) {
	req := infer.Request{Sampling: infer.Greedy(), MaxTokens: 20}
	plain := start(t, config(t, stories(), 2))
	req.Prompt = promptOf(t, plain, 5)
	want, _ := generate(t, plain, req)
	got, _ := generate(t, tapped(t, func(*wire.Record) {}), req)
	if len(want) == 0 || len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
