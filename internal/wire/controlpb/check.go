package controlpb

import (
	"fmt"
	"math"

	"muster/internal/id"
)

// Bounds of what a message holds; a frame bounds the rest.
const (
	mostName      = 256     // bytes
	mostDetail    = 4 << 10 // bytes
	mostAddresses = 16
	mostDevices   = 64
	mostFacts     = 64
	mostParts     = 1 << 10
	mostLayers    = 1 << 16
	mostStages    = 1 << 12
	mostRevision  = 128 // bytes
)

// FieldError says which field of a message is not what it must be.
type FieldError struct {
	Field string // such as "provision.in.peer_id"
	What  string // such as "has 3 bytes, a node id has 32"
}

func (e *FieldError) Error() string { return e.Field + " " + e.What }

func wrong(field, format string, args ...any) error {
	return &FieldError{Field: field, What: fmt.Sprintf(format, args...)}
}

// Check returns a FieldError for the first field that is not what it must be.
// The version is not looked at.
func (m *Request) Check() error {
	if m.GetDeadlineMicros() < 0 {
		return wrong("deadline_micros", "is %d", m.GetDeadlineMicros())
	}
	switch body := m.GetBody().(type) {
	case *Request_Hello:
		return body.Hello.check("hello")
	case *Request_Report:
		return body.Report.check("report")
	case *Request_Ping:
		return body.Ping.check("ping")
	case *Request_Peers:
		return checkPeers("peers.peers", body.Peers.GetPeers())
	case *Request_Provision:
		return body.Provision.check("provision")
	case *Request_TearDown:
		return body.TearDown.check("tear_down")
	case *Request_Offer:
		return body.Offer.check("offer")
	case *Request_Leave:
		return checkText("leave.reason", body.Leave.GetReason(), mostDetail)
	}
	return wrong("body", "is none that this build knows")
}

// Check returns a FieldError for the first field that is not what it must be. A
// reply has a fault or a body, never both.
func (m *Reply) Check() error {
	if m.GetFault() != nil {
		if m.GetBody() != nil {
			return wrong("body", "stands beside a fault")
		}
		return m.GetFault().check("fault", mostCauses)
	}
	switch body := m.GetBody().(type) {
	case *Reply_Hello:
		return body.Hello.check("hello")
	case *Reply_Report, *Reply_Leave:
		return nil
	case *Reply_Ping:
		return body.Ping.check("ping")
	case *Reply_Peers:
		return checkBoot("peers.boot_id", body.Peers.GetBootId())
	case *Reply_Provision:
		return checkBoot("provision.boot_id", body.Provision.GetBootId())
	case *Reply_TearDown:
		return checkBoot("tear_down.boot_id", body.TearDown.GetBootId())
	case *Reply_Offer:
		return body.Offer.GetShard().checkShard("offer.shard")
	}
	return wrong("body", "is none that this build knows")
}

// first returns the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkNode(field string, b []byte) error {
	return first(checkLength(field, b, len(id.NodeID{}), "a node id"), checkSome(field, Node(b).IsZero()))
}

// checkDigest lets one be missing.
func checkDigest(field string, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return first(checkLength(field, b, len(Digest(b)), "a digest"), checkSome(field, Digest(b) == [32]byte{}))
}

func checkBoot(field string, b []byte) error {
	return first(checkLength(field, b, len(id.BootID{}), "a boot id"), checkSome(field, Boot(b).IsZero()))
}

func checkRun(field string, b []byte) error {
	if err := checkLength(field, b, len(id.RunID{}), "a run id"); err != nil {
		return err
	}
	if _, err := id.ParseRunID(Run(b).String()); err != nil {
		return wrong(field, "is no run id: %s", err)
	}
	return nil
}

func checkEdge(field string, b []byte) error {
	if err := checkLength(field, b, len(id.EdgeID{}), "an edge id"); err != nil {
		return err
	}
	if _, err := id.ParseEdgeID(Edge(b).String()); err != nil {
		return wrong(field, "is no edge id: %s", err)
	}
	return nil
}

func checkLength(field string, b []byte, want int, what string) error {
	if len(b) != want {
		return wrong(field, "has %d bytes, %s has %d", len(b), what, want)
	}
	return nil
}

func checkSome(field string, none bool) error {
	if none {
		return wrong(field, "is all zero, which means none")
	}
	return nil
}

// checkAttempt refuses 0: attempts are counted from 1.
func checkAttempt(field string, attempt uint32) error {
	if attempt == 0 {
		return wrong(field, "is 0, attempts begin with 1")
	}
	return nil
}

func checkText(field, s string, most int) error {
	if len(s) > most {
		return wrong(field, "has %d bytes, at most %d are taken", len(s), most)
	}
	return nil
}

func checkNamed(field, s string, most int) error {
	if s == "" {
		return wrong(field, "is empty")
	}
	return checkText(field, s, most)
}

func checkCount(field string, n, most int) error {
	if n > most {
		return wrong(field, "has %d entries, at most %d are taken", n, most)
	}
	return nil
}

// checkFigure refuses what does not fit an int on every platform: figures that
// were negative before they were sent.
func checkFigure(field string, v uint32) error {
	if v > math.MaxInt32 {
		return wrong(field, "is %d, at most %d is taken", v, math.MaxInt32)
	}
	return nil
}

func checkAmount(field string, v int64) error {
	if v < 0 {
		return wrong(field, "is %d", v)
	}
	return nil
}

func checkAddresses(field string, addresses []string) error {
	if err := checkCount(field, len(addresses), mostAddresses); err != nil {
		return err
	}
	for _, a := range addresses {
		if err := checkNamed(field, a, mostName); err != nil {
			return err
		}
	}
	return nil
}

func checkPeers(field string, peers []*Peer) error {
	seen := make(map[id.NodeID]bool, len(peers))
	for i, p := range peers {
		at := fmt.Sprintf("%s[%d]", field, i)
		err := first(
			checkNode(at+".node_id", p.GetNodeId()),
			checkAddresses(at+".addresses", p.GetAddresses()),
			checkText(at+".name", p.GetName(), mostName),
		)
		if err != nil {
			return err
		}
		node := Node(p.GetNodeId())
		if seen[node] {
			return wrong(at+".node_id", "is %s, which stands there twice", node.Short())
		}
		seen[node] = true
	}
	return nil
}
