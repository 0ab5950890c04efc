package wire_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"muster/internal/fault"
	"muster/internal/wire"
)

func TestLinesSurviveTheWay(t *testing.T) {
	sent := []wire.Reply{
		{ID: 1, Opened: &wire.Opened{PID: 7, Engine: "0.4.0-dev", Devices: []wire.Device{{Kind: "cpu", MemoryTotal: 1 << 40}}}},
		{ID: 2, Progress: &wire.Progress{Done: 0.5}},
		{ID: 3, Vocab: &wire.Vocab{Pieces: [][]byte{{0xff, '\n', 0}, {}}, EOG: []int32{2}, BOS: -1, Template: "{{ a }}\n"}},
		{Fault: fault.New(fault.StageDecodeFailed, "worker 2", "status", -1)},
		{ID: 4, Tokens: make([]int32, 300000)}, // longer than any buffer
		{ID: 5},
	}
	var stream []byte
	for _, r := range sent {
		var err error
		if stream, err = wire.AppendLine(stream, r); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "in halves": iotest.HalfReader(bytes.NewReader(stream)), "end with data": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		lines := wire.NewLineReader(r, wire.LineLimit)
		for i, want := range sent {
			var got wire.Reply
			if err := lines.Next(&got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: line %d is read as %+v, %v", name, i, got, err)
			}
		}
		if err := lines.Next(new(wire.Reply)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the last line comes %v", name, err)
		}
	}
}

func TestALineIsBounded(t *testing.T) {
	const limit = 1000
	line := func(n int) string { return `{"id":1` + strings.Repeat(" ", n-9) + "}\n" } // of n bytes
	var got wire.Reply
	if err := wire.NewLineReader(strings.NewReader(line(limit)), limit).Next(&got); err != nil || got.ID != 1 {
		t.Errorf("a line of the limit gave %v", err)
	}
	if err := wire.NewLineReader(strings.NewReader(line(limit+1)), limit).Next(&got); !errors.Is(err, fault.WorkerProtocolBroken) {
		t.Errorf("a line over the limit gave %v", err)
	}
	endless := iotest.OneByteReader(zeros{})
	if err := wire.NewLineReader(endless, limit).Next(&got); !errors.Is(err, fault.WorkerProtocolBroken) {
		t.Errorf("a line without end gave %v", err)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestTheStreamsOwnErrorIsKept(t *testing.T) {
	for _, before := range []string{"", `{"id":`} {
		r := io.MultiReader(strings.NewReader(before), iotest.ErrReader(io.ErrClosedPipe))
		if err := wire.NewLineReader(r, 100).Next(new(wire.Reply)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %q came %v", before, err)
		}
	}
}

// FuzzReply: whatever a worker says is read or refused as one of four errors,
// and what is read is written and read again as the same.
func FuzzReply(f *testing.F) {
	f.Add([]byte(`{"id":1,"opened":{"pid":1,"engine":"e","system":"s","devices":[]}}` + "\n"))
	f.Add([]byte(`{"fault":{"code":"stage.decode_failed","attrs":[{"key":"status","value":"1"}],"cause":"x"}}` + "\n"))
	f.Add([]byte("null\n{\"id\":1}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		lines := wire.NewLineReader(bytes.NewReader(stream), 4096)
		for {
			var got, again wire.Reply
			if err := lines.Next(&got); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, fault.WorkerProtocolBroken) {
					t.Fatalf("refused with %v", err)
				}
				return
			}
			line, err := wire.AppendLine(nil, got)
			if err != nil {
				t.Fatal(err)
			}
			if err := wire.NewLineReader(bytes.NewReader(line), wire.LineLimit).Next(&again); err != nil {
				t.Fatalf("%q was written and not read again: %v", line, err)
			}
			second, err := wire.AppendLine(nil, again)
			if err != nil || !bytes.Equal(line, second) {
				t.Fatalf("%q came back as %q, %v", line, second, err)
			}
		}
	})
}
