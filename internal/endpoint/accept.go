package endpoint

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/quic-go/quic-go"
)

// attempt is a handshake that somebody else began.
type attempt struct{ settled bool }

type attemptKey struct{}

var (
	errCrowded = errors.New("endpoint: too many connections")
	errNoHello = errors.New("its first stream is not a hello")
)

// begin is asked for each connection before any work is done for it.
func (e *Endpoint) begin(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	a := &attempt{}
	e.mu.Lock()
	defer e.mu.Unlock()
	full := e.handshaking >= e.cfg.Handshakes || e.handshaking+e.inbound >= e.cfg.Connections
	// A permitted peer's address keeps a way in while others flood the port;
	// under load the address has been verified, see crowding.
	if e.known[addrPort(info.RemoteAddr)] {
		full = e.handshaking >= 4*e.cfg.Handshakes
	}
	if full || e.ctx.Err() != nil {
		return nil, errCrowded
	}
	e.handshaking++
	context.AfterFunc(ctx, func() { e.settle(a) })
	return context.WithValue(ctx, attemptKey{}, a), nil
}

// settle takes a handshake off the count, once.
func (e *Endpoint) settle(a *attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !a.settled {
		a.settled = true
		e.handshaking--
	}
}

// crowding reports whether so many handshakes are in progress that each
// further one must first prove its address, at the cost of a round trip.
func (e *Endpoint) crowding() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.handshaking >= max(1, e.cfg.Handshakes/4)
}

// accept welcomes connections until the endpoint ends.
func (e *Endpoint) accept() {
	for {
		q, err := e.listener.Accept(e.ctx)
		if err != nil {
			e.fail(err)
			return
		}
		if code := e.welcome(q); code != codeDone {
			e.tasks.Go(func() { _ = q.CloseWithError(code, closeWords[code]) })
		}
	}
}

// welcome tells the dialler that it is in. It does not block.
func (e *Endpoint) welcome(q *quic.Conn) quic.ApplicationErrorCode {
	if a, ok := q.Context().Value(attemptKey{}).(*attempt); ok {
		defer e.settle(a)
	}
	state := q.ConnectionState().TLS
	peer, process, err := identify(state)
	name, alone := protocolOf(state.NegotiatedProtocol)
	a := admitted{q: q, protocol: e.protocols[name], peer: peer, instance: process, alone: alone}
	if err != nil || a.protocol == nil {
		return codeBroken
	}
	e.mu.Lock()
	code := e.mayJoin(a)
	e.mu.Unlock()
	if code != codeDone {
		return code
	}
	// The hello must be the first stream, so nothing may use the connection
	// before; adopt asks again, since the set may have changed.
	hello, err := q.OpenUniStream()
	if err != nil {
		return codeBroken
	}
	if err := hello.TryWriteAll([]byte{kindHello}); err != nil {
		return codeBroken
	}
	_ = hello.Close()
	_, code = e.adopt(a)
	return code
}

// awaitHello waits until the acceptor lets the dialler in.
func awaitHello(ctx context.Context, q *quic.Conn) error {
	hello, err := q.AcceptUniStream(ctx)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = hello.SetReadDeadline(deadline)
	}
	defer context.AfterFunc(ctx, func() { _ = hello.SetReadDeadline(time.Unix(1, 0)) })()
	kind, err := readKind(hello)
	if errors.Is(err, io.EOF) || err == nil && kind != kindHello {
		return errNoHello
	}
	if err != nil {
		return err
	}
	hello.CancelRead(streamUnread)
	return nil
}
