package controlpb_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"muster/internal/fault"
	"muster/internal/wire/controlpb"
)

func TestFaultsCross(t *testing.T) {
	word := rapid.StringN(1, 40, 100)
	var faults func(depth int) *rapid.Generator[*fault.Fault]
	faults = func(depth int) *rapid.Generator[*fault.Fault] {
		return rapid.Custom(func(t *rapid.T) *fault.Fault {
			f := &fault.Fault{
				Code:      fault.Code(rapid.StringMatching(`[a-z]{1,8}\.[a-z]{1,8}_lost`).Draw(t, "code")),
				Node:      rapid.StringN(0, 8, 50).Draw(t, "node"),
				Component: rapid.StringN(0, 20, 100).Draw(t, "component"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "figures") {
				f.Attrs = append(f.Attrs, fault.Attr{Key: word.Draw(t, "key"), Value: word.Draw(t, "value")})
			}
			switch rapid.IntRange(0, 2).Draw(t, "cause") {
			case 1:
				f.Cause = errors.New(word.Draw(t, "words"))
			case 2:
				if depth > 0 {
					f.Cause = faults(depth-1).Draw(t, "below")
				}
			}
			return f
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		sent := faults(8).Draw(t, "fault")
		var got controlpb.Fault
		crossed(t, controlpb.FaultOf(sent), &got)
		if err := (&controlpb.Reply{Fault: &got}).Check(); err != nil {
			t.Fatalf("what was sent is refused: %v", err)
		}
		if !reflect.DeepEqual(got.Typed(), sent) {
			t.Fatalf("%#v arrived as %#v", sent, got.Typed())
		}
	})
}

func TestErrorsWithoutACodeAreSentTyped(t *testing.T) {
	if controlpb.FaultOf(nil) != nil || (*controlpb.Fault)(nil).Typed() != nil {
		t.Error("nothing became a fault")
	}
	got := controlpb.FaultOf(io.ErrUnexpectedEOF).Typed()
	if got.Code != fault.InternalUnexpected || got.Cause.Error() != "unexpected EOF" {
		t.Errorf("an untyped error is sent as %v", got)
	}
	wrapped := fmt.Errorf("while serving: %w", fault.New(fault.ArenaClosed, "arena"))
	if got := controlpb.FaultOf(wrapped).Typed(); got.Code != fault.ArenaClosed {
		t.Errorf("a wrapped fault is sent as %v", got)
	}
	caused := fault.New(fault.RunInterrupted, "run").Because(context.Canceled)
	if got := controlpb.FaultOf(caused).Typed(); got.Error() != caused.Error() {
		t.Errorf("%q is sent as %q", caused, got)
	}
}

// Whatever a fault of this side holds, its peer takes it.
func TestAFaultIsCutToItsBounds(t *testing.T) {
	var deepest error = errors.New(strings.Repeat("ä", 8<<10))
	for range 30 {
		f := fault.New(fault.WorkerExited, strings.Repeat("c", 1000), "status", 1, "log", strings.Repeat("x\xff", 8<<10))
		f.Node = strings.Repeat("n", 1000)
		for range 100 {
			f.Attrs = append(f.Attrs, fault.Attr{Key: strings.Repeat("k", 1000), Value: "v"})
		}
		deepest = f.Because(deepest)
	}
	m := controlpb.FaultOf(deepest)
	if err := (&controlpb.Reply{Fault: m}).Check(); err != nil {
		t.Fatalf("it is refused: %v", err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 4<<20 {
		t.Errorf("it has %d bytes, more than a frame", len(b))
	}
	log := m.Typed().Attr("log")
	if !utf8.ValidString(log) || !strings.HasSuffix(log, "…") {
		t.Errorf("the log ends in %q", log[len(log)-8:])
	}
	if !errors.Is(m.Typed(), fault.WorkerExited) {
		t.Error("the code is lost")
	}
}

func TestAFaultDeeperThanItsBoundIsRefused(t *testing.T) {
	m := &controlpb.Fault{Code: "x.y_lost"}
	for range 9 {
		m = &controlpb.Fault{Code: "x.y_lost", Cause: &controlpb.Fault_Fault{Fault: m}}
	}
	err := (&controlpb.Reply{Fault: m}).Check()
	if err == nil || !strings.HasSuffix(err.Error(), "cause is deeper than 8 causes") {
		t.Errorf("the error is %v", err)
	}
}
