package control

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

// callTimeout is how long a call waits whose context has no deadline.
const callTimeout = 30 * time.Second

// Caller makes calls. It may be used by many at once.
type Caller struct {
	open Open
}

// NewCaller makes a caller over the streams that open opens.
func NewCaller(open Open) *Caller { return &Caller{open: open} }

// Call asks peer and waits for its answer, until ctx ends. Of req only the body
// is read; the reply has the body that answers it. Errors are faults whose Node
// is the peer's short id, unless the peer passes on another's:
//
//	what the peer answered, or why no stream could be opened
//	control.request_invalid   req is not sound, found here or there
//	control.reply_invalid     the answer is not
//	control.call_overdue      ctx's deadline came first
//	control.call_cancelled    ctx was cancelled first
//	control.peer_lost         the connection ended first
//
// Nothing is sent twice: whether a call that was lost may be made again is for
// whoever knows what it does.
func (c *Caller) Call(ctx context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, error) {
	if err := req.Check(); err != nil {
		return nil, at(peer, requestInvalid(err))
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	reply, f := c.call(ctx, peer, req)
	if f != nil {
		return nil, at(peer, f)
	}
	return reply, nil
}

func (c *Caller) call(ctx context.Context, peer id.NodeID, req *controlpb.Request) (*controlpb.Reply, *fault.Fault) {
	began := time.Now()
	s, err := c.open(ctx, peer)
	if err != nil {
		return nil, openFault(ctx, err, req.Op(), began)
	}
	var reply controlpb.Reply
	if f := exchange(ctx, s, req, &reply, began); f != nil {
		s.Cancel(codeGone)
		return nil, f
	}
	if reply.GetFault() != nil {
		return nil, reply.GetFault().Typed()
	}
	return &reply, nil
}

// exchange sends the request and reads a sound reply to it.
func exchange(ctx context.Context, s Stream, req *controlpb.Request, reply *controlpb.Reply, began time.Time) *fault.Fault {
	deadline, _ := ctx.Deadline()
	frame, err := frameOf(&controlpb.Request{
		Version:        Version,
		DeadlineMicros: max(1, controlpb.Micros(time.Until(deadline))),
		Body:           req.GetBody(),
	})
	if err != nil {
		return requestInvalid(err)
	}
	release := cancelWith(ctx, s)
	defer release()

	_, unsent := s.Write(frame)
	if unsent == nil {
		unsent = s.CloseWrite()
	}
	// A peer that refuses a request may do so before all of it was sent.
	err = readFrame(s, reply)
	var field *controlpb.FieldError
	switch {
	case err == nil:
	case errors.As(err, &field):
		return replyInvalid(req.Op(), field)
	case ctx.Err() != nil:
		return ended(ctx, req.Op(), began)
	case unsent != nil:
		return lost(req.Op(), unsent)
	default:
		return lost(req.Op(), err)
	}
	if err := checkReply(req, reply); err != nil {
		return replyInvalid(req.Op(), err)
	}
	return nil
}

// checkReply says why a reply does not answer a request.
func checkReply(req *controlpb.Request, reply *controlpb.Reply) error {
	if err := reply.Check(); err != nil {
		return err
	}
	if reply.GetFault() == nil && !reply.Answers(req) {
		return &controlpb.FieldError{Field: "body", What: "answers another question"}
	}
	return nil
}
