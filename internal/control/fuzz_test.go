package control_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"muster/internal/control"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// Whatever a peer sends, the handler sees only what is sound, and the peer gets
// one frame with a sound reply.
func FuzzServe(f *testing.F) {
	f.Add(frame(f, sound(f)))
	f.Add(frame(f, provision(f)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{4, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, sent []byte) {
		here, there := newStream(16 << 20)
		if _, err := here.Write(sent); err != nil {
			t.Fatal(err)
		}
		if err := here.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		handled := false
		control.Serve(t.Context(), node, there, func(_ context.Context, _ id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
			handled = true
			if err := req.Check(); err != nil || req.GetVersion() != control.Version {
				t.Errorf("%v was handled: %v", req, err)
			}
			return nil, nil
		})
		b, err := io.ReadAll(here)
		if err != nil || len(b) < 4 || int(binary.LittleEndian.Uint32(b)) != len(b)-4 {
			t.Fatalf("the reply is %x, %v", b, err)
		}
		var reply controlpb.Reply
		if err := controlpb.Decode(b[4:], &reply); err != nil {
			t.Fatal(err)
		}
		if err := reply.Check(); err != nil {
			t.Error(err)
		}
		if code := reply.GetFault().GetCode(); handled != (code == string(fault.ControlRequestUnserved)) {
			t.Errorf("handled: %t, answered: %s", handled, code)
		}
	})
}

// Whatever a peer answers, the caller gets a sound reply to its request or a
// fault with a name.
func FuzzCall(f *testing.F) {
	f.Add(frame(f, pong(1)))
	f.Add(frame(f, &controlpb.Reply{Fault: controlpb.FaultOf(fault.New(fault.ArenaClosed, "arena"))}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{4, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, sent []byte) {
		caller := control.NewCaller(func(context.Context, id.NodeID) (control.Stream, error) {
			here, there := newStream(16 << 20)
			if _, err := there.Write(sent); err != nil {
				t.Fatal(err)
			}
			return here, there.CloseWrite()
		})
		reply, err := caller.Call(t.Context(), node, ping(1))
		if err == nil {
			if reply.GetPing() == nil || reply.Check() != nil {
				t.Errorf("%v was given as an answer", reply)
			}
			return
		}
		var typed *fault.Fault
		if !errors.As(err, &typed) || typed.Code == "" || typed.Node == "" {
			t.Errorf("the error is %#v", err)
		}
	})
}
