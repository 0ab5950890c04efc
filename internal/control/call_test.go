package control_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/internal/control"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/wire/controlpb"
)

var (
	orchestrator = id.NodeID{1, 2, 3}
	node         = id.NodeID{4, 5, 6}
	boot         = id.BootID{7, 8, 9}
)

// callerOf is a caller on the orchestrator, whose streams lead to h on the node.
func callerOf(t *testing.T, h control.Handler) *control.Caller {
	t.Helper()
	return control.NewCaller(func(_ context.Context, peer id.NodeID) (control.Stream, error) {
		if peer != node {
			t.Errorf("a stream to %s was asked for", peer.Short())
		}
		here, there := newStream(64 << 10)
		served := make(chan struct{})
		go func() {
			defer close(served)
			control.Serve(context.WithoutCancel(t.Context()), orchestrator, there, h)
			there.in.end(errCancelled) // as an endpoint ends a stream that was served
		}()
		t.Cleanup(func() { <-served })
		return here, nil
	})
}

func ping(nonce uint64) *controlpb.Request {
	return &controlpb.Request{Body: &controlpb.Request_Ping{Ping: &controlpb.Ping{Nonce: nonce, BootId: controlpb.ID(boot)}}}
}

func pong(nonce uint64) *controlpb.Reply {
	return &controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: &controlpb.Pong{Nonce: nonce, BootId: controlpb.ID(boot)}}}
}

func TestACallIsAnswered(t *testing.T) {
	c := callerOf(t, func(_ context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
		if peer != orchestrator || req.GetVersion() != control.Version {
			t.Errorf("%s called with version %d", peer.Short(), req.GetVersion())
		}
		return pong(req.GetPing().GetNonce()), nil
	})
	reply, err := c.Call(t.Context(), node, ping(42))
	if err != nil {
		t.Fatal(err)
	}
	if reply.GetPing().GetNonce() != 42 || controlpb.Boot(reply.GetPing().GetBootId()) != boot {
		t.Errorf("the answer is %v", reply)
	}
}

// A manifest is the largest of all that is sent, beyond any window.
func TestALargeRequestCrosses(t *testing.T) {
	manifest := bytes.Repeat([]byte("tensor "), 500_000)
	req := provision(t)
	req.GetProvision().Model.ManifestJson = manifest
	c := callerOf(t, func(_ context.Context, _ id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
		if !bytes.Equal(req.GetProvision().GetModel().GetManifestJson(), manifest) {
			t.Error("the manifest did not arrive as it was sent")
		}
		return &controlpb.Reply{Body: &controlpb.Reply_Provision{Provision: &controlpb.ProvisionReply{BootId: controlpb.ID(boot)}}}, nil
	})
	if _, err := c.Call(t.Context(), node, req); err != nil {
		t.Fatal(err)
	}
}

func TestARequestTooLargeToSendIsRefusedHere(t *testing.T) {
	req := provision(t)
	req.GetProvision().Model.ManifestJson = make([]byte, control.FrameLimit)
	c := callerOf(t, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
		t.Error("it was sent")
		return nil, nil
	})
	_, err := c.Call(t.Context(), node, req)
	wantFault(t, err, fault.ControlRequestInvalid, "at most 4194304 are taken")
}

func TestAFaultCrossesTyped(t *testing.T) {
	unknown := fault.New(fault.Code("comet.tail_lost"), "tail", "length", 3).Because(errors.New("no ice"))
	sent := fault.New(fault.WorkerExited, "worker 1", "status", 3, "log", "bad \xff byte").Because(unknown)
	c := callerOf(t, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
		return nil, sent
	})
	_, err := c.Call(t.Context(), node, ping(1))
	wantFault(t, err, fault.WorkerExited, node.Short()+": worker 1: the process ended with status 3: tail: comet.tail_lost: no ice")
	if !errors.Is(err, fault.Code("comet.tail_lost")) {
		t.Error("the code of the cause is lost")
	}
	if got := fault.From(err).Attr("log"); got != "bad \uFFFD byte" {
		t.Errorf("a figure arrived as %q", got)
	}
	if sent.Node != "" {
		t.Error("the sender's fault was changed")
	}
}

func TestAFaultOfAThirdNodeKeepsItsName(t *testing.T) {
	c := callerOf(t, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
		f := fault.New(fault.ArenaClosed, "arena")
		f.Node = "abcd2345"
		return nil, f
	})
	_, err := c.Call(t.Context(), node, ping(1))
	wantFault(t, err, fault.ArenaClosed, "abcd2345: arena: ")
}

func TestTheDeadlineTravels(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := callerOf(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
			deadline, ok := ctx.Deadline()
			if left := time.Until(deadline); !ok || left != 3*time.Second {
				t.Errorf("the handler has %s", left)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Call(ctx, node, ping(1))
		wantFault(t, err, fault.ControlCallOverdue, node.Short()+": control: ping was not answered within 3s")
	})
}

func TestACallWithoutDeadlineEndsAllTheSame(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := callerOf(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		_, err := c.Call(context.WithoutCancel(t.Context()), node, ping(1))
		wantFault(t, err, fault.ControlCallOverdue, "within 30s")
	})
}

func TestCancellingACallEndsItsHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		seen := make(chan error, 1)
		c := callerOf(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
			cancel(errors.New("the run was stopped"))
			<-ctx.Done()
			seen <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		_, err := c.Call(ctx, node, ping(1))
		wantFault(t, err, fault.ControlCallCancelled, "ping was given up before its answer: the run was stopped")
		if cause := <-seen; !errors.Is(cause, fault.ControlCallCancelled) {
			t.Errorf("the handler's context ended because %v", cause)
		}
	})
}

func TestAStreamThatCannotBeOpened(t *testing.T) {
	cases := []struct {
		name string
		open error
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want fault.Code
	}{
		{"says the endpoint's own fault", fault.New(fault.PlatformUnsupported, "endpoint"), nil, fault.PlatformUnsupported},
		{"for a reason without a code", errors.New("no route"), nil, fault.ControlPeerLost},
		{"before the deadline", context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Unix(0, 0))
		}, fault.ControlCallOverdue},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			if c.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = c.ctx(ctx)
				defer cancel()
			}
			caller := control.NewCaller(func(context.Context, id.NodeID) (control.Stream, error) { return nil, c.open })
			_, err := caller.Call(ctx, node, ping(1))
			wantFault(t, err, c.want, node.Short()+": ")
		})
	}
}

func TestALostConnectionIsNotADeadline(t *testing.T) {
	c := control.NewCaller(func(context.Context, id.NodeID) (control.Stream, error) {
		here, there := newStream(64 << 10)
		there.Cancel(0)
		return here, nil
	})
	_, err := c.Call(t.Context(), node, ping(1))
	wantFault(t, err, fault.ControlPeerLost, "the connection was lost before ping was answered")
	if !errors.Is(err, errCancelled) {
		t.Errorf("%v hides what the stream said", err)
	}
}

func TestAnUnsoundRequestIsNotSent(t *testing.T) {
	c := control.NewCaller(func(context.Context, id.NodeID) (control.Stream, error) {
		t.Error("a stream was opened")
		return nil, errors.New("no stream")
	})
	req := ping(1)
	req.GetPing().BootId = []byte{1, 2, 3}
	_, err := c.Call(t.Context(), node, req)
	wantFault(t, err, fault.ControlRequestInvalid, "ping.boot_id has 3 bytes, a boot id has 16")
}

func TestRepliesThatAreNoAnswers(t *testing.T) {
	sound := frame(t, pong(1))
	cases := map[string]struct {
		bytes []byte
		want  string
	}{
		"none":             {nil, "frame ended after 0 of 4 bytes"},
		"half a length":    {sound[:3], "frame ended after 3 of 4 bytes"},
		"half a frame":     {sound[:len(sound)-1], "frame ended after"},
		"too long":         {[]byte{0xff, 0xff, 0xff, 0xff}, "frame has 4294967295 bytes, at most 4194304 are taken"},
		"garbage":          {[]byte{2, 0, 0, 0, 0xff, 0xff}, "message is no protobuf"},
		"two frames":       {append(bytes.Clone(sound), sound...), "frame is followed by more"},
		"nothing said":     {[]byte{0, 0, 0, 0}, "body is none that this build knows"},
		"another question": {frame(t, &controlpb.Reply{Body: &controlpb.Reply_Leave{Leave: &controlpb.LeaveReply{}}}), "body answers another question"},
		"an id cut short":  {frame(t, &controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: &controlpb.Pong{BootId: []byte{1}}}}), "ping.boot_id has 1 bytes"},
		"a fault no fault": {frame(t, &controlpb.Reply{Fault: &controlpb.Fault{}}), "fault.code is empty"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			caller := control.NewCaller(func(context.Context, id.NodeID) (control.Stream, error) {
				here, there := newStream(64 << 10)
				if _, err := there.Write(c.bytes); err != nil {
					t.Error(err)
				}
				return here, there.CloseWrite()
			})
			_, err := caller.Call(t.Context(), node, ping(1))
			wantFault(t, err, fault.ControlReplyInvalid, c.want)
		})
	}
}

// wantFault checks the code of an error and words of its line.
func wantFault(t *testing.T, err error, code fault.Code, words string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("the error is %v, want %s", err, code)
		return
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("the error reads %q, want %q in it", err, words)
	}
}
