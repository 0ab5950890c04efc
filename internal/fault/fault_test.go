package fault_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/fault"
)

func TestAFaultReadsAsOneLineWithItsFigures(t *testing.T) {
	f := fault.New(fault.ModelLayersTooFew, "planner", "workers", 9, "most", 5).Because(errors.New("five blocks"))
	f.Node = "abcd2345"
	const want = "abcd2345: planner: 9 workers want at least as many places to cut, the model allows 5: five blocks"
	if f.Error() != want {
		t.Errorf("the line is %q, want %q", f.Error(), want)
	}
	if f.Hint() != "use at most 5" {
		t.Errorf("the hint is %q", f.Hint())
	}
}

func TestCodesCompareThroughWrapping(t *testing.T) {
	err := fmt.Errorf("while loading: %w", fault.New(fault.WorkerKilled, "worker 1"))
	if !errors.Is(err, fault.WorkerKilled) {
		t.Error("a wrapped fault is not found by its code")
	}
	if errors.Is(err, fault.WorkerExited) {
		t.Error("a fault is found by another's code")
	}
	if fault.Exit(err) != int(fault.Died) {
		t.Errorf("the exit code is %d, want %d", fault.Exit(err), fault.Died)
	}
	if fault.Exit(nil) != 0 {
		t.Errorf("success exits with %d", fault.Exit(nil))
	}
}

func TestAnUntypedErrorBecomesInternal(t *testing.T) {
	cause := errors.New("odd")
	f := fault.From(cause)
	if f.Code != fault.InternalUnexpected || !errors.Is(f, cause) {
		t.Errorf("an untyped error became %v", f)
	}
	if fault.From(nil) != nil {
		t.Error("no error became a fault")
	}
}

func TestAFaultCrossesProcesses(t *testing.T) {
	sent := fault.New(fault.GGUFFileMissing, "muster", "path", "a.gguf").Because(errors.New("no such file"))
	line, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var got fault.Fault
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	if got.Error() != sent.Error() || !errors.Is(&got, fault.GGUFFileMissing) {
		t.Errorf("%q arrived as %q", sent, &got)
	}
	if err := json.Unmarshal([]byte(`{"code":1}`), &got); err == nil {
		t.Error("a fault with a number for its code was read")
	}
}

// A newer peer may know codes that this build does not.
func TestAnUnknownCodeIsShownByItsName(t *testing.T) {
	code := fault.Code("comet.tail_lost")
	if code.Known() {
		t.Fatal("the code is known")
	}
	if line := fault.New(code, "node").Error(); !strings.Contains(line, "comet.tail_lost") {
		t.Errorf("the line %q hides the code", line)
	}
	if code.Entry().Exit() != int(fault.Internal) {
		t.Errorf("an unknown code exits with %d", code.Entry().Exit())
	}
}
