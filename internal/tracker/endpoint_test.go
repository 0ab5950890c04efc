package tracker_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit/capture"
	"muster/internal/tracker/api"
	"muster/internal/tracker/client"
)

func openEndpoint(t *testing.T, n byte, serve capture.Serve) *endpoint.Endpoint {
	t.Helper()
	p := endpoint.Protocol{Name: api.Protocol, Limits: endpoint.Limits{Streams: 8, Window: 256 << 10}}
	if serve != nil {
		p.Bidi = func(ctx context.Context, peer id.NodeID, s endpoint.Stream) { serve(ctx, peer, s) }
	}
	e, err := endpoint.Open(endpoint.Config{Key: keyOf(n), Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{p}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func clientOf(e *endpoint.Endpoint) *client.Client {
	return client.New(e.ID(), trackerNode, func(ctx context.Context) (api.Stream, error) {
		return e.OpenStream(ctx, trackerNode, api.Protocol)
	})
}

func TestARegistrationOverQUIC(t *testing.T) {
	b := newBench(t)
	server := openEndpoint(t, 200, b.requests.Tap(b.tracker.Serve))
	nodes := map[byte]*endpoint.Endpoint{}
	permitted := map[id.NodeID][]string{}
	for n := byte(1); n <= 3; n++ {
		nodes[n] = openEndpoint(t, n, nil)
		nodes[n].Permit(1, map[id.NodeID][]string{trackerNode: {server.Addr().String()}})
		permitted[nodeOf(n)] = nil
	}
	stranger := openEndpoint(t, 9, nil)
	stranger.Permit(1, map[id.NodeID][]string{trackerNode: {server.Addr().String()}})
	server.Permit(1, permitted)

	// All at once, as a pool does.
	leases := make([]api.LeaseAnswer, 4)
	var group sync.WaitGroup
	for n := byte(1); n <= 3; n++ {
		group.Go(func() {
			c := clientOf(nodes[n])
			a, err := c.Challenge(t.Context(), id.BootID{n})
			if err != nil {
				t.Error(err)
				return
			}
			s, f := admit.Sign(keyOf(n), reportOf(n, a.Challenge, 1))
			if f != nil {
				t.Error(f)
				return
			}
			if leases[n], err = c.Register(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	b.wantBlocked()
	if _, err := clientOf(nodes[2]).Renew(t.Context(), renewal(2, leases[2].Lease)); err != nil {
		t.Error(err)
	}

	// What node 3 signed comes by node 2's connection.
	b.tracker.NodeLost(nodeOf(3), fault.New(fault.NodeSuspected, "", "name", "n3"))
	a, err := clientOf(nodes[3]).Challenge(t.Context(), id.BootID{3})
	if err != nil {
		t.Fatal(err)
	}
	s, f := admit.Sign(keyOf(3), reportOf(3, a.Challenge, 2))
	if f != nil {
		t.Fatal(f)
	}
	_, err = clientOf(nodes[2]).Register(t.Context(), s)
	wantCode(t, err, fault.AdmitNodeMismatched)
	b.wantBlocked("n3")

	_, err = clientOf(stranger).Challenge(t.Context(), id.BootID{9})
	wantCode(t, err, fault.EndpointPeerRefused)
	if err := clientOf(nodes[1]).Withdraw(t.Context(), leases[1].Lease); err != nil {
		t.Error(err)
	}
	b.wantBlocked("n1", "n3")
}

// What a test captures is what came: a node that never registered is seen not
// to have.
func TestCapturedRequestsAreThoseThatCame(t *testing.T) {
	b := newBench(t)
	server := openEndpoint(t, 200, b.requests.Tap(b.tracker.Serve))
	node := openEndpoint(t, 2, nil)
	node.Permit(1, map[id.NodeID][]string{trackerNode: {server.Addr().String()}})
	server.Permit(1, map[id.NodeID][]string{node.ID(): nil})
	if _, err := clientOf(node).Challenge(t.Context(), id.BootID{2}); err != nil {
		t.Fatal(err)
	}
	s, err := node.OpenStream(t.Context(), trackerNode, api.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("hello\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = s.CloseWrite()
	_ = s.SetReadDeadline(time.Now().Add(10 * time.Second))
	for buf := make([]byte, 512); err == nil; {
		_, err = s.Read(buf)
	}
	want := []string{"POST /v1/nodes/challenge", " "}
	if got := b.requests.Lines(); !reflect.DeepEqual(got, want) {
		t.Errorf("captured %q, want %q", got, want)
	}
	first := b.requests.All()[0]
	if first.Peer != node.ID() || string(first.Body) != fmt.Sprintf(`{"boot":"%s"}`, id.BootID{2}) {
		t.Errorf("captured %+v", first)
	}
}

// The end of the tracker's endpoint ends its requests and its serving.
func TestAnEndpointThatClosesEndsItsRequests(t *testing.T) {
	b := newBench(t)
	asked := make(chan struct{})
	b.owner.want(func(ctx context.Context, _ admit.Report) (admit.Want, error) {
		close(asked)
		<-ctx.Done()
		return admit.Want{}, fault.New(fault.RunInterrupted, "test")
	})
	server := openEndpoint(t, 200, b.tracker.Serve)
	node := openEndpoint(t, 2, nil)
	node.Permit(1, map[id.NodeID][]string{trackerNode: {server.Addr().String()}})
	server.Permit(1, map[id.NodeID][]string{node.ID(): nil})
	a, err := clientOf(node).Challenge(t.Context(), id.BootID{2})
	if err != nil {
		t.Fatal(err)
	}
	s, f := admit.Sign(keyOf(2), reportOf(2, a.Challenge, 1))
	if f != nil {
		t.Fatal(f)
	}
	var group sync.WaitGroup
	group.Go(func() {
		<-asked
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second) // under the owner's 5 s
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	_, err = clientOf(node).Register(t.Context(), s)
	wantCode(t, err, fault.TrackerConnectionLost)
	group.Wait()
}
