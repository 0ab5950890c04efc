package child_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/wire"
	"muster/internal/worker/child"
)

func TestRequestsAreReadStrictly(t *testing.T) {
	c := child.Talk(strings.NewReader(`{"id":1,"op":"ping"}`+"\n"+`{"id":4,"op":"stop"}`+"\n"), io.Discard)
	for _, want := range []wire.Request{{ID: 1, Op: wire.OpPing}, {ID: 4, Op: wire.OpStop}} {
		if got, err := c.Next(); err != nil || got != want {
			t.Fatalf("read %+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for _, bad := range []string{
		"hello\n", "\n", "null\n", `{"id":0,"op":"ping"}` + "\n", `{"op":"ping"}` + "\n", `{"id":1,"op":"ping","more":1}` + "\n",
		`{"id":1,"op":"ping"}{"id":2,"op":"ping"}` + "\n", `{"id":-1,"op":"ping"}` + "\n",
	} {
		if got, err := child.Talk(strings.NewReader(bad), io.Discard).Next(); !errors.Is(err, fault.WorkerProtocolBroken) {
			t.Errorf("%q was read as %+v, %v", bad, got, err)
		}
	}
	if _, err := child.Talk(strings.NewReader(`{"id":1,"op":"pi`), io.Discard).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a line gave %v", err)
	}
}

func TestAnIDMustRise(t *testing.T) {
	c := child.Talk(strings.NewReader(`{"id":2,"op":"ping"}`+"\n"+`{"id":2,"op":"ping"}`+"\n"), io.Discard)
	if _, err := c.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Next(); !errors.Is(err, fault.WorkerProtocolBroken) {
		t.Errorf("the second request of one id gave %v", err)
	}
}

func TestRepliesNeverMix(t *testing.T) {
	const replies, writers = 200, 8
	r, w := io.Pipe()
	c := child.Talk(strings.NewReader(""), w)
	var sending sync.WaitGroup
	for i := range writers {
		sending.Go(func() {
			for range replies {
				if err := c.Send(wire.Reply{ID: uint64(i + 1), Tokens: make([]int32, 100*i)}); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	go func() {
		sending.Wait()
		_ = w.Close()
	}()
	lines := wire.NewLineReader(r, wire.LineLimit)
	count := map[uint64]int{}
	for {
		var got wire.Reply
		err := lines.Next(&got)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Tokens) != 100*int(got.ID-1) {
			t.Errorf("reply %d has %d tokens", got.ID, len(got.Tokens))
		}
		count[got.ID]++
	}
	for i := range writers {
		if n := count[uint64(i+1)]; n != replies {
			t.Errorf("%d replies of writer %d, want %d", n, i, replies)
		}
	}
}
