package doctor

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names(checks []probe.Check) []string {
	var all []string
	for _, c := range checks {
		all = append(all, c.Name)
	}
	return all
}

// past names the checks that failed.
func past(f Findings) []string {
	return names(slices.DeleteFunc(slices.Clone(f.Checks), func(c probe.Check) bool { return c.Passed }))
}

func TestAGoodShardPassesEveryCheck(t *testing.T) {
	for name, r := range roles {
		for _, referenced := range []bool{false, true} {
			p, exam := admitted(t, newToy(), r, usual)
			if referenced {
				exam.Reference = known(t, r)
			}
			f, err := Examine(t.Context(), p, exam)
			if err != nil || f.Failed() != nil {
				t.Errorf("%s, reference %v: %v, %v", name, referenced, err, f.Failed())
			}
			if want := probe.Required(referenced, r.last); !slices.Equal(names(f.Checks), want) {
				t.Errorf("%s, reference %v: the checks %v, want %v", name, referenced, names(f.Checks), want)
			}
			if f.Held != 150 || f.ResidentBytes != 1150 || f.Projected() || f.DecodeMicros <= 0 || f.PrefillMicros <= 0 || f.Referenced != referenced {
				t.Errorf("%s, reference %v: the figures %+v", name, referenced, f)
			}
		}
	}
}

// Serving opens every slot in generation 1 and must find what a new shard has.
func TestTheShardIsLeftAsIfNeverUsed(t *testing.T) {
	for name, r := range roles {
		for _, recipe := range []wire.Recipe{
			{Context: 150, Slots: 3, Chunk: 32},
			{Context: 4, Slots: 1, Chunk: 1},
			{Context: 4, Slots: 4, Chunk: 3},
			{Context: 9, Slots: 8, Chunk: 3},
			{Context: 64, Slots: 1, Chunk: 512},
		} {
			p, exam := admitted(t, newToy(), r, recipe)
			f, err := Examine(t.Context(), p, exam)
			if err != nil || f.Failed() != nil {
				t.Fatalf("%s, %+v: %v, %v", name, recipe, err, f.Failed())
			}
			fresh, _ := admitted(t, newToy(), r, recipe)
			for slot := range recipe.Slots {
				if n := len(p.toy.cells[slot]); n > 0 {
					t.Errorf("%s, %+v: slot %d still has %d cells", name, recipe, slot, n)
				}
			}
			var got [2][]float32
			for i, p := range []*patient{p, fresh} {
				v := &visit{ctx: t.Context(), exam: &exam, patient: p}
				if got[i], err = v.once(exam.made(recipe.Context, 5, 1)); err != nil {
					t.Fatalf("%s, %+v: %v", name, recipe, err)
				}
			}
			if relative(got[0], got[1], 1) != 0 {
				t.Errorf("%s, %+v: it computes something else than a new one", name, recipe)
			}
		}
	}
}

func TestEachFaultIsCaughtByItsCheck(t *testing.T) {
	for name, c := range map[string]struct {
		plant      func(e *toy, p *patient, exam *Exam)
		referenced bool
		roles      []string // nil: all
		want       string
	}{
		"a tensor differs from the manifest": {plant: func(_ *toy, _ *patient, x *Exam) {
			x.Verify = func(context.Context) (int, error) { return 1, nil }
		}, want: probe.Slice},
		"NaN in every row":              {plant: func(e *toy, _ *patient, _ *Exam) { e.nan = 1 }, want: probe.Finite},
		"NaN from position 90":          {plant: func(e *toy, _ *patient, _ *Exam) { e.nan = 90 }, roles: []string{"first", "middle"}, want: probe.Finite},
		"NaN that the worker refuses":   {plant: func(e *toy, _ *patient, _ *Exam) { e.nan, e.refuses = 1, true }, want: probe.Finite},
		"a scale flipped":               {plant: func(e *toy, _ *patient, _ *Exam) { e.gain = 2 }, referenced: true, want: probe.Relative},
		"a sign flipped":                {plant: func(e *toy, _ *patient, _ *Exam) { e.gain = -1 }, referenced: true, want: probe.Cosine},
		"the sign of the head flipped":  {plant: func(e *toy, _ *patient, _ *Exam) { e.head = true }, referenced: true, roles: []string{"last", "whole"}, want: probe.TopToken},
		"wrong beyond 40 tokens":        {plant: func(e *toy, _ *patient, _ *Exam) { e.reach = 40 }, referenced: true, want: probe.Relative},
		"another result each time":      {plant: func(e *toy, _ *patient, _ *Exam) { e.jitter = 1e-5 }, want: probe.Repeat},
		"single tokens without cache":   {plant: func(e *toy, _ *patient, _ *Exam) { e.lonely = true }, want: probe.Stepwise},
		"single tokens a place further": {plant: func(e *toy, _ *patient, _ *Exam) { e.shifted = true }, want: probe.Stepwise},
		"slots that see one another":    {plant: func(e *toy, _ *patient, _ *Exam) { e.mixed = true }, want: probe.Stepwise},
		"the same whatever comes":       {plant: func(e *toy, _ *patient, _ *Exam) { e.deaf = true }, want: probe.Sensitive},
		"no token sees another":         {plant: func(e *toy, _ *patient, _ *Exam) { e.forgetful = true }, want: probe.Sensitive},
		"a roll-back leaves cells":      {plant: func(e *toy, _ *patient, _ *Exam) { e.keeps = true }, want: probe.Rollback},
		"a roll-back does nothing":      {plant: func(e *toy, _ *patient, _ *Exam) { e.stays = true }, want: probe.Stepwise},
		"fewer cells than the recipe's": {plant: func(e *toy, _ *patient, _ *Exam) { e.room = 149 }, want: probe.Full},
		"memory over the plan":          {plant: func(_ *toy, _ *patient, x *Exam) { x.MemoryPlanned = 1149 }, want: probe.Memory},
	} {
		t.Run(name, func(t *testing.T) {
			for place, r := range roles {
				if c.roles != nil && !slices.Contains(c.roles, place) {
					continue
				}
				e := newToy()
				p, exam := admitted(t, e, r, usual)
				if c.referenced {
					exam.Reference = known(t, r)
				}
				c.plant(e, p, &exam)
				f, err := Examine(t.Context(), p, exam)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(past(f), c.want) {
					t.Errorf("%s: the checks %v failed, not %s: %+v", place, past(f), c.want, f.Checks)
				}
				if why := f.Failed(); why == nil || why.Code != fault.DoctorCheckFailed {
					t.Errorf("%s: it failed by %v", place, why)
				}
			}
		})
	}
}

// The fault names the check, its figures and what to do.
func TestAFailureSaysByHowMuch(t *testing.T) {
	p, exam := admitted(t, newToy(), roles["middle"], usual)
	exam.Name, exam.MemoryPlanned = "worker 2", 1<<20
	p.resident = func(int) uint64 { return 3 << 20 }
	f, err := Examine(t.Context(), p, exam)
	if err != nil {
		t.Fatal(err)
	}
	why := f.Failed()
	const says = "worker 2: the layers 2:5 failed the doctor's check memory: 3.0 MiB resident at full context, of 1.0 MiB that the worker can have"
	if why.Error() != says || why.Hint() != Try(probe.Memory) {
		t.Errorf("it says %q, and %q", why.Error(), why.Hint())
	}
	if why.Attr("check") != probe.Memory || why.Attr("got") != "3.145728e+06" || why.Attr("limit") != "1.048576e+06" {
		t.Errorf("its figures are %v", why.Attrs)
	}
}

func TestAWorkerThatDiesOrHangsFailsWithItsCause(t *testing.T) {
	killed := fault.New(fault.WorkerKilled, "worker", "signal", "SIGKILL", "said", "")
	for name, c := range map[string]struct {
		step  func(ctx context.Context, n int) error
		want  fault.Code
		cause error
	}{
		"dies": {func(_ context.Context, n int) error {
			if n == 30 {
				return killed
			}
			return nil
		}, fault.DoctorWorkerLost, fault.WorkerKilled},
		"hangs": {func(ctx context.Context, n int) error {
			if n == 30 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, fault.DoctorStepOverdue, context.DeadlineExceeded},
		"is stopped": {func(_ context.Context, n int) error {
			if n == 30 {
				return fault.New(fault.WorkerStopped, "worker", "signal", "SIGSTOP", "pid", 7, "waited", time.Second)
			}
			return nil
		}, fault.DoctorStepOverdue, fault.WorkerStopped},
		"faults": {func(_ context.Context, n int) error {
			if n == 30 {
				return fault.New(fault.StageDecodeFailed, "worker", "status", -3, "log", "")
			}
			return nil
		}, fault.DoctorForwardBroken, fault.StageDecodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p, exam := admitted(t, newToy(), roles["last"], usual)
				p.step = c.step
				f, err := Examine(t.Context(), p, exam)
				if err != nil {
					t.Fatal(err)
				}
				why := f.Failed()
				if why == nil || why.Code != c.want || !errors.Is(why, c.cause) {
					t.Errorf("it failed by %v, want %s because of %v", why, c.want, c.cause)
				}
				if !slices.Contains(names(f.Checks), probe.Slice) {
					t.Error("what was found before is lost")
				}
			})
		})
	}
}

// A record that belongs to another question must not be judged.
func TestAnAnswerToAnotherQuestionIsNoAnswer(t *testing.T) {
	for name, change := range map[string]func(r *wire.Record){
		"position": func(r *wire.Record) { r.Items[0].Position++ },
		"slot":     func(r *wire.Record) { r.Items[0].Slot++ },
		"a row":    func(r *wire.Record) { r.Rows = r.Rows[1:] },
		"kind":     func(r *wire.Record) { r.Kind = wire.KindAnswers },
		"items":    func(r *wire.Record) { r.Items = r.Items[:0] },
	} {
		p, exam := admitted(t, newToy(), roles["middle"], usual)
		f, err := Examine(t.Context(), changed{p, change}, exam)
		if err != nil || f.Fault == nil || f.Fault.Code != fault.DoctorForwardBroken || !errors.Is(f.Fault, fault.StageRecordInvalid) {
			t.Errorf("%s: %v, %v", name, err, f.Fault)
		}
	}
}

type changed struct {
	*patient
	change func(*wire.Record)
}

func (c changed) Step(ctx context.Context, in *wire.Record) (*wire.Record, error) {
	out, err := c.patient.Step(ctx, in)
	if err == nil {
		c.change(out)
	}
	return out, err
}

func TestCancellingIsNoVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, exam := admitted(t, newToy(), roles["first"], usual)
	p.step = func(ctx context.Context, n int) error {
		if n == 20 {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	f, err := Examine(ctx, p, exam)
	if !errors.Is(err, fault.RunInterrupted) || f.Fault != nil {
		t.Errorf("got %v, and the finding %v", err, f.Fault)
	}
}

func TestASliceThatCannotBeReadFails(t *testing.T) {
	p, exam := admitted(t, newToy(), roles["first"], usual)
	torn := errors.New("input/output error")
	exam.Verify = func(context.Context) (int, error) { return 0, torn }
	f, err := Examine(t.Context(), p, exam)
	if err != nil || f.Failed() == nil || f.Failed().Code != fault.DoctorSliceUnreadable || !errors.Is(f.Fault, torn) {
		t.Errorf("%v, %v", err, f.Failed())
	}
}

// A context that would take too long to fill is filled in part, and its memory
// follows from the growth.
func TestAnExpensiveContextIsFilledInPart(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p, exam := admitted(t, newToy(), roles["middle"], wire.Recipe{Context: 2000, Slots: 3, Chunk: 100})
		p.resident = func(held int) uint64 { return uint64(1000 + (held+group-1)/group) }
		exam.FillWithin = 4 * time.Second
		p.step = func(context.Context, int) error {
			time.Sleep(time.Second)
			return nil
		}
		exam.RowTime, exam.TokenTime = time.Second, time.Second
		f, err := Examine(t.Context(), p, exam)
		if err != nil || f.Failed() != nil {
			t.Fatal(err, f.Failed())
		}
		if f.Held != 803 || !f.Projected() || f.ResidentBytes != 1008 { // 8 groups of cells
			t.Errorf("%d tokens were held, memory %d", f.Held, f.ResidentBytes)
		}
		full := f.Checks[slices.Index(names(f.Checks), probe.Full)]
		if !full.Passed || full.Got != 803 || full.Limit != 803 {
			t.Errorf("%+v", full)
		}
	})
}

func TestExamsThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Exam){
		"no width":         func(x *Exam) { x.Width = 0 },
		"no vocabulary":    func(x *Exam) { x.Vocabulary = 0 },
		"no layers":        func(x *Exam) { x.Layers = [2]int{3, 3} },
		"no slots":         func(x *Exam) { x.Recipe.Slots = 0 },
		"a context of 7":   func(x *Exam) { x.Recipe.Context = 7 },
		"nobody to verify": func(x *Exam) { x.Verify = nil },
		"another range":    func(x *Exam) { x.Reference.Layers = [2]int{1, 5} },
		"another width":    func(x *Exam) { x.Reference.Width = 9 },
		"rows too few":     func(x *Exam) { x.Reference.Passages[0].In = x.Reference.Passages[0].In[1:] },
		"NaN in the reference": func(x *Exam) {
			x.Reference.Passages[0].Logits[0] /= 0
			x.Reference.Passages[0].Logits[0] -= x.Reference.Passages[0].Logits[0]
		},
		"no passage":               func(x *Exam) { x.Reference.Passages = nil },
		"no passage that fits":     func(x *Exam) { x.Recipe.Context = 15 },
		"reference without logits": func(x *Exam) { x.Reference.Passages[1].Logits = nil },
	} {
		p, exam := admitted(t, newToy(), roles["last"], usual)
		exam.Reference = known(t, roles["last"])
		change(&exam)
		if _, err := Examine(t.Context(), p, exam); !errors.Is(err, fault.DoctorExamInvalid) || p.steps > 0 {
			t.Errorf("%s: %v after %d steps", name, err, p.steps)
		}
	}
}
