package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// How long a peer may take to send its request and to take its answer, and a
// handler to find it.
const (
	requestTimeout = 5 * time.Second
	replyTimeout   = 10 * time.Second
	handlerMost    = 10 * time.Minute
)

// Handler answers one request of peer. Version and fields have been checked;
// ctx ends with the caller's deadline, with its patience or with its
// connection, and the handler must then return. An error is answered as a
// fault. Neither reply nor error means that the request's body is not served.
type Handler func(ctx context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error)

// Serve answers the one call on s and returns when all is done or ctx has
// ended. Whoever gave s ends it then: what was written is sent, what was not
// read is refused.
func Serve(ctx context.Context, peer id.NodeID, s Stream, h Handler) {
	release := cancelWith(ctx, s)
	defer release()

	_ = s.SetDeadline(time.Now().Add(requestTimeout))
	req, refusal, ok := readRequest(s)
	if !ok {
		s.Cancel(codeGone)
		return
	}
	var reply *controlpb.Reply
	if refusal != nil {
		reply = faultReply(refusal)
	} else {
		reply = answer(ctx, peer, s, req, h)
	}
	_ = s.SetDeadline(time.Now().Add(replyTimeout))
	if err := send(s, reply); err != nil {
		s.Cancel(codeGone)
	}
}

// readRequest returns a sound request or why it is refused; ok is false where
// nobody is left to be answered.
func readRequest(s Stream) (req *controlpb.Request, refusal *fault.Fault, ok bool) {
	req = new(controlpb.Request)
	err := readFrame(s, req)
	var field *controlpb.FieldError
	switch {
	case err == nil:
	case errors.As(err, &field):
		return nil, requestInvalid(field), true
	case errors.Is(err, os.ErrDeadlineExceeded):
		what := fmt.Sprintf("was not whole within %s", requestTimeout)
		return nil, requestInvalid(&controlpb.FieldError{Field: "frame", What: what}), true
	default:
		return nil, nil, false
	}
	if req.GetVersion() != Version {
		return nil, fault.New(fault.ControlVersionMismatched, component, "got", req.GetVersion(), "want", Version), true
	}
	if err := req.Check(); err != nil {
		return nil, requestInvalid(err), true
	}
	return req, nil, true
}

// answer runs the handler and turns whatever comes of it into a reply.
func answer(ctx context.Context, peer id.NodeID, s Stream, req *controlpb.Request, h Handler) *controlpb.Reply {
	began := time.Now()
	wait := controlpb.Duration(req.GetDeadlineMicros())
	if wait == 0 {
		wait = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, min(wait, handlerMost))
	defer cancel()
	ctx, release := whileWanted(ctx, s, req.Op())
	defer release()

	reply, err := guarded(ctx, peer, req, h)
	var typed *fault.Fault
	switch {
	case err != nil && ctx.Err() != nil && !errors.As(err, &typed):
		return faultReply(ended(ctx, req.Op(), began))
	case err != nil:
		return faultReply(err)
	case reply == nil:
		return faultReply(fault.New(fault.ControlRequestUnserved, component, "op", req.Op()))
	}
	if err := checkReply(req, reply); err != nil {
		return faultReply(replyInvalid(req.Op(), err))
	}
	return reply
}

// whileWanted is a context that ends when the caller wants no answer any more.
// release ends it and waits for what watches.
func whileWanted(parent context.Context, s Stream, op string) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.Done():
			cancel(fault.New(fault.ControlCallCancelled, component, "op", op))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
	}
}

// guarded calls the handler and ends its panics here.
func guarded(ctx context.Context, peer id.NodeID, req *controlpb.Request, h Handler) (reply *controlpb.Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			slog.Error("a control handler panicked", "op", req.Op(), "peer", peer.Short(), "panic", v, "stack", string(debug.Stack()))
			reply, err = nil, fault.New(fault.InternalUnexpected, component).Because(fmt.Errorf("panic in %s: %v", req.Op(), v))
		}
	}()
	return h(ctx, peer, req)
}

func faultReply(err error) *controlpb.Reply {
	return &controlpb.Reply{Fault: controlpb.FaultOf(err)}
}

// send writes the reply; one that cannot be sent becomes a fault.
func send(s Stream, reply *controlpb.Reply) error {
	frame, err := frameOf(reply)
	if err != nil {
		if frame, err = frameOf(faultReply(replyInvalid("the call", err))); err != nil {
			return err
		}
	}
	if _, err := s.Write(frame); err != nil {
		return err
	}
	return s.CloseWrite()
}
