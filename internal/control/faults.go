package control

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/wire/controlpb"
)

const component = "control"

// at is a fault of a call to peer: a copy, since what it was made of may be
// another's.
func at(peer id.NodeID, f *fault.Fault) *fault.Fault {
	told := *f
	if told.Node == "" {
		told.Node = peer.Short()
	}
	return &told
}

func requestInvalid(err error) *fault.Fault {
	field := fieldOf(err)
	return fault.New(fault.ControlRequestInvalid, component, "field", field.Field, "what", field.What)
}

func replyInvalid(op string, err error) *fault.Fault {
	return fault.New(fault.ControlReplyInvalid, component, "op", op, "what", fieldOf(err).Error())
}

// fieldOf is the FieldError in err; errors of sizes and codecs are of that type
// throughout.
func fieldOf(err error) *controlpb.FieldError {
	var field *controlpb.FieldError
	if errors.As(err, &field) {
		return field
	}
	return &controlpb.FieldError{Field: "message", What: "is not sound: " + err.Error()}
}

func lost(op string, err error) *fault.Fault {
	return fault.New(fault.ControlPeerLost, component, "op", op).Because(err)
}

// openFault says why no stream was opened. The endpoint's own faults say it
// better.
func openFault(ctx context.Context, err error, op string, began time.Time) *fault.Fault {
	var typed *fault.Fault
	switch {
	case errors.As(err, &typed):
		return typed
	case ctx.Err() != nil:
		return ended(ctx, op, began)
	default:
		return lost(op, err)
	}
}

// ended says why the wait of a call ended with its context.
func ended(ctx context.Context, op string, began time.Time) *fault.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		waited := time.Since(began).Round(time.Millisecond)
		return fault.New(fault.ControlCallOverdue, component, "op", op, "waited", waited)
	}
	cause := context.Cause(ctx)
	var typed *fault.Fault
	if errors.As(cause, &typed) && typed.Code == fault.ControlCallCancelled {
		return typed
	}
	f := fault.New(fault.ControlCallCancelled, component, "op", op)
	if !errors.Is(cause, context.Canceled) {
		f.Cause = cause
	}
	return f
}
