package control_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"muster/internal/control"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// pair is two endpoints on this machine that let one another in.
type pair struct {
	caller  *endpoint.Endpoint
	server  *endpoint.Endpoint
	control *control.Caller
}

func newPair(t testing.TB, h control.Handler) pair {
	t.Helper()
	open := func(serve control.Handler) *endpoint.Endpoint {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		e, err := endpoint.Open(endpoint.Config{Key: key, Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{{
			Name: control.Protocol,
			Bidi: func(ctx context.Context, peer id.NodeID, s endpoint.Stream) { control.Serve(ctx, peer, s, serve) },
		}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, e) })
		return e
	}
	p := pair{caller: open(nil), server: open(h)}
	p.caller.Permit(1, map[id.NodeID][]string{p.server.ID(): {p.server.Addr().String()}})
	p.server.Permit(1, map[id.NodeID][]string{p.caller.ID(): nil})
	p.control = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return p.caller.OpenStream(ctx, peer, control.Protocol)
	})
	return p
}

func closed(t testing.TB, e *endpoint.Endpoint) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestCallsOverQUIC(t *testing.T) {
	p := newPair(t, func(_ context.Context, _ id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
		if req.GetLeave() != nil {
			return nil, fault.New(fault.RunInterrupted, "node")
		}
		return pong(req.GetPing().GetNonce()), nil
	})
	for nonce := range uint64(20) {
		reply, err := p.control.Call(t.Context(), p.server.ID(), ping(nonce))
		if err != nil || reply.GetPing().GetNonce() != nonce {
			t.Fatalf("call %d: %v, %v", nonce, reply, err)
		}
	}
	_, err := p.control.Call(t.Context(), p.server.ID(), &controlpb.Request{Body: &controlpb.Request_Leave{Leave: &controlpb.Leave{}}})
	wantFault(t, err, fault.RunInterrupted, p.server.ID().Short()+": node: stopped on request")
	_, err = p.control.Call(t.Context(), id.NodeID{1}, ping(1))
	wantFault(t, err, fault.EndpointPeerUnknown, id.NodeID{1}.Short()+": ")
}

// A request is sent whole before its handler begins, so the peer learns of a
// cancelled call only by the side on which it was to answer.
func TestACancelledCallEndsItsHandlerOverQUIC(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := newPair(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
		cancel()
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(10 * time.Second):
			ended <- errors.New("the handler was never told")
		}
		return nil, ctx.Err()
	})
	_, err := p.control.Call(ctx, p.server.ID(), ping(1))
	wantFault(t, err, fault.ControlCallCancelled, "")
	if err := <-ended; !errors.Is(err, fault.ControlCallCancelled) {
		t.Errorf("the handler's context ended because %v", err)
	}
}

func TestTheEndOfAPeerEndsItsCalls(t *testing.T) {
	begun := make(chan struct{})
	p := newPair(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	go func() {
		<-begun
		closed(t, p.server)
	}()
	_, err := p.control.Call(t.Context(), p.server.ID(), ping(1))
	wantFault(t, err, fault.ControlPeerLost, p.server.ID().Short()+": control: the connection was lost before ping was answered")
}

func TestARefusalReachesACallerThatIsStillSending(t *testing.T) {
	p := newPair(t, uncalled(t))
	s, err := p.caller.OpenStream(t.Context(), p.server.ID(), control.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cancel(0)
	if _, err := s.Write([]byte("\xff\xff\xff\xffand so on")); err != nil {
		t.Fatal(err)
	}
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	var reply controlpb.Reply
	if err := controlpb.Decode(b[4:], &reply); err != nil {
		t.Fatal(err)
	}
	wantFault(t, reply.GetFault().Typed(), fault.ControlRequestInvalid, "frame has 4294967295 bytes")
}

func BenchmarkCall(b *testing.B) {
	p := newPair(b, func(_ context.Context, _ id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
		reply := pong(req.GetPing().GetNonce())
		reply.GetPing().Facts = &controlpb.Facts{Attempt: 1, Facts: []*controlpb.FactState{
			{Name: "arena", State: controlpb.FactState_STATE_PROVEN, Detail: strings.Repeat("x", 200)},
		}}
		return reply, nil
	})
	call := func() error {
		_, err := p.control.Call(context.Background(), p.server.ID(), ping(1))
		return err
	}
	if err := call(); err != nil {
		b.Fatal(err)
	}
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sixteen", func(b *testing.B) {
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
