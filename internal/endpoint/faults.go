package endpoint

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/quic-go/quic-go"

	"muster/internal/fault"
	"muster/internal/id"
)

// The codes with which connections end. They are on the wire: numbers are
// kept.
const (
	codeDone         quic.ApplicationErrorCode = 0 // the dialler needs it no more
	codeClosing      quic.ApplicationErrorCode = 1 // the endpoint is closed
	codeNotPermitted quic.ApplicationErrorCode = 2
	codeCrowded      quic.ApplicationErrorCode = 3 // too many connections
	codeCrossed      quic.ApplicationErrorCode = 4 // the other one of two crossed dials stays
	codeBroken       quic.ApplicationErrorCode = 5 // the peer does not keep to this package's rules
	codeOverstayed   quic.ApplicationErrorCode = 6 // a stranger's time is up
)

var closeWords = map[quic.ApplicationErrorCode]string{
	codeDone:         "it is needed no more",
	codeClosing:      "its process is ending",
	codeNotPermitted: "the pool has changed",
	codeCrowded:      "there were too many",
	codeCrossed:      "another one stays",
	codeBroken:       "the other side did not keep to the rules",
	codeOverstayed:   "a stranger's time is up",
}

// The codes with which streams end by themselves, beyond the 32 bits that
// Cancel takes.
const (
	streamRefused quic.StreamErrorCode = 1 << 40 // the protocol serves no such streams
	streamUnread  quic.StreamErrorCode = 2 << 40 // the handler returned without reading all
	streamBroken  quic.StreamErrorCode = 3 << 40 // its first bytes are not what they must be
)

// The alerts of TLS that end a handshake, as QUIC carries them.
const (
	cryptoErrors   quic.TransportErrorCode = 0x100
	alertNoALPN                            = cryptoErrors + 120
	lastCryptoCode                         = cryptoErrors + 0xff
)

// target is the other end of a dial or a connection, as faults name it.
type target struct {
	self, peer id.NodeID
	protocol   string
	address    string
}

func (t target) fault(code fault.Code, pairs ...any) *fault.Fault {
	return fault.New(code, component, append([]any{
		"peer", t.peer.Short(), "address", t.address, "protocol", t.protocol, "self", t.self.Short(),
	}, pairs...)...)
}

// dialFault says why a dial failed. err is of the library, or a mismatch.
func (t target) dialFault(err error, waited time.Duration) *fault.Fault {
	var wrong *mismatch
	var transport *quic.TransportError
	var version *quic.VersionNegotiationError
	switch {
	case errors.As(err, &wrong):
		got := "node " + wrong.got.Short()
		if wrong.why != nil {
			got = "something that is no node: " + wrong.why.Error()
		}
		return t.fault(fault.EndpointIdentityMismatched, "got", got)
	case errors.As(err, &version), errors.Is(err, errNoHello):
		return t.fault(fault.EndpointProtocolUnknown).Because(err)
	case errors.As(err, &transport) && transport.Remote && transport.ErrorCode == quic.ConnectionRefused:
		return t.fault(fault.EndpointConnectionsExhausted)
	case errors.As(err, &transport) && isCrypto(transport.ErrorCode):
		return t.connFault(err, waited)
	}
	if isApplication(err) {
		return t.connFault(err, waited)
	}
	return t.fault(fault.EndpointPeerUnreachable, "waited", waited.Round(time.Millisecond)).Because(plain(err))
}

// connFault says why a connection ended; idle is the silence that ends one.
func (t target) connFault(err error, idle time.Duration) *fault.Fault {
	var application *quic.ApplicationError
	var transport *quic.TransportError
	var reset *quic.StatelessResetError
	var silence *quic.IdleTimeoutError
	switch {
	case errors.As(err, &application):
		return t.closeFault(application)
	case errors.As(err, &reset):
		return t.fault(fault.EndpointPeerRestarted)
	case errors.As(err, &silence):
		return t.fault(fault.EndpointPeerSilenced, "waited", idle)
	case errors.As(err, &transport) && transport.Remote && transport.ErrorCode == alertNoALPN:
		return t.fault(fault.EndpointProtocolUnknown)
	case errors.As(err, &transport) && transport.Remote && isCrypto(transport.ErrorCode):
		return t.fault(fault.EndpointPeerRefused)
	default:
		return t.fault(fault.EndpointConnectionBroken).Because(err)
	}
}

func (t target) closeFault(err *quic.ApplicationError) *fault.Fault {
	switch {
	case err.ErrorCode == codeNotPermitted && err.Remote:
		return t.fault(fault.EndpointPeerRefused)
	case err.ErrorCode == codeCrowded && err.Remote:
		return t.fault(fault.EndpointConnectionsExhausted)
	case err.ErrorCode == codeClosing && !err.Remote:
		return t.fault(fault.EndpointSocketClosed)
	case err.ErrorCode == codeNotPermitted:
		return t.fault(fault.EndpointPeerUnknown)
	}
	what, known := closeWords[err.ErrorCode]
	if !known {
		what = err.Error()
	}
	return t.fault(fault.EndpointConnectionClosed, "what", what)
}

// streamFault says why a call on a stream failed; io.EOF passes.
func (t target) streamFault(err error, idle time.Duration) error {
	var cancelled *quic.StreamError
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return t.fault(fault.EndpointCallOverdue).Because(os.ErrDeadlineExceeded)
	case errors.As(err, &cancelled):
		if cancelled.Remote && cancelled.ErrorCode == streamRefused {
			return t.fault(fault.EndpointStreamRefused)
		}
		by := "this node"
		if cancelled.Remote {
			by = "that node"
		}
		return t.fault(fault.EndpointStreamCancelled, "by", by, "stream_code", streamCodeWord(cancelled.ErrorCode))
	}
	return t.connFault(err, idle)
}

func streamCodeWord(code quic.StreamErrorCode) any {
	switch code {
	case streamUnread:
		return "unread"
	case streamBroken:
		return "broken"
	}
	return uint64(code)
}

// contextFault says why a wait ended: by a deadline, by a fault that was given
// as the cause, or because the caller gave up.
func (t target) contextFault(ctx context.Context, waited time.Duration) *fault.Fault {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return t.fault(fault.EndpointPeerUnreachable, "waited", waited.Round(time.Millisecond)).Because(ctx.Err())
	}
	if f, ok := context.Cause(ctx).(*fault.Fault); ok { //nolint:errorlint // one that was given as the cause itself
		return f
	}
	return t.fault(fault.EndpointCallCancelled).Because(context.Cause(ctx))
}

func isCrypto(code quic.TransportErrorCode) bool {
	return code >= cryptoErrors && code <= lastCryptoCode
}

func isApplication(err error) bool {
	var application *quic.ApplicationError
	return errors.As(err, &application)
}

// plain drops causes that repeat what the fault says.
func plain(err error) error {
	var handshake *quic.HandshakeTimeoutError
	var silence *quic.IdleTimeoutError
	if errors.As(err, &handshake) || errors.As(err, &silence) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}
