package endpoint_test

import (
	"os"
	"runtime"
	"testing"

	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/id"
	"muster/internal/testkit"
)

func TestRoundsOfOpeningAndClosingLeaveNothing(t *testing.T) {
	testkit.Leaks(t)
	for range 15 {
		t.Run("", func(t *testing.T) {
			nodes := []*node{open(t), open(t), open(t)}
			acquaint(nodes...)
			for _, n := range nodes {
				if err := n.DialSelf(within(t, wait)); err != nil {
					t.Fatal(err)
				}
				for _, peer := range nodes {
					if peer == n {
						continue
					}
					n.mustCall(peer, echoProtocol)
					if _, err := n.OpenUni(within(t, wait), peer.ID(), pipeProtocol); err != nil {
						t.Fatal(err)
					}
					_ = n.SendDatagram(peer.ID(), swimProtocol, []byte("x"))
				}
			}
		})
	}
}

func TestPeersThatComeAndGoLeaveNothingInANodeThatStays(t *testing.T) {
	a := open(t)
	goroutines := runtime.NumGoroutine()
	for round := range uint64(20) {
		b := open(t)
		a.Permit(round, map[id.NodeID][]string{b.ID(): {b.addr()}})
		b.Permit(1, map[id.NodeID][]string{a.ID(): {a.addr()}})
		a.mustCall(b, echoProtocol)
		b.mustCall(a, joinProtocol)
		_ = a.SendDatagram(b.ID(), swimProtocol, []byte("x"))
		receive(t, "a datagram", b.datagrams)
		if err := b.Close(within(t, wait)); err != nil {
			t.Fatal(err)
		}
	}
	a.Permit(1000, nil)
	eventually(t, "the tables are empty", func() bool { return a.Holds() == endpoint.Held{} })
	eventually(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "each connection that was told has a told end", func() bool {
		return len(of[event.PeerConnected](a.events)) == len(of[event.PeerDisconnected](a.events))
	})
}

// A wrapped socket would lose what makes large records cheap.
func TestPacketsAreSentInBatches(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	if os.Getenv("QUIC_GO_DISABLE_GSO") != "" {
		t.Skip("switched off by QUIC_GO_DISABLE_GSO")
	}
	a, b := open(t), open(t)
	acquaint(a, b)
	a.mustCall(b, echoProtocol)
	if !a.GSO(b.ID()) {
		t.Error("packets are sent one by one")
	}
}

func TestSmallBuffersAreToldWithTheRemedy(t *testing.T) {
	n := open(t)
	for _, told := range of[event.SocketBufferRefused](n.events) {
		if told.Got >= told.Asked || told.Hint == "" {
			t.Errorf("told %+v", told)
		}
	}
	if told := of[event.EndpointOpened](n.events); len(told) != 1 || told[0].Node != n.ID() || told[0].Address != n.addr() {
		t.Errorf("told %+v", told)
	}
}
