//go:build unix

package main

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whoever has no place in the pool is told so by a typed fault, in its time,
// and disturbs nobody.
func TestNodesThatDoNotBelongAreToldSo(t *testing.T) {
	p := newPool(t, 1)
	p.serving()
	who, addr, _ := strings.Cut(p.orchestrator, "@")
	other := p.run("node", "--id", "--data", p.dir+"/other")
	if other.exit != 0 {
		t.Fatal(other.stderr)
	}
	for _, c := range []struct {
		name, orchestrator, data string
		flags                    []string
		exit                     int
		code                     string
		words                    []string
	}{
		{"not in the pool", p.orchestrator, "stranger", nil, 9, "pool.node_unknown", nil},
		{"of another pool", p.orchestrator, "stranger", []string{"--pool", "other"}, 3, "pool.unknown", []string{"other"}},
		{"a second of one key", p.orchestrator, "twin", []string{"--key", p.dir + "/n1/key"}, 2, "node.id_contested", []string{"n1"}},
		{"a second of one folder", p.orchestrator, "n1", nil, 9, "node.folder_locked", []string{"n1"}},
		{"its port taken", p.orchestrator, "other", []string{"--listen", addr, "--give-up", "2s"}, 9, "endpoint.port_taken", []string{addr}},
		{"told another orchestrator", strings.TrimSpace(other.stdout) + "@" + addr, "stranger", []string{"--give-up", "5s"}, 9, "endpoint.identity_mismatched", []string{addr, who[:8]}},
		{"nobody answers", who + "@" + silent(t), "stranger", []string{"--give-up", "2s"}, 8, "node.orchestrator_unreachable", []string{who[:8]}},
		{"nobody is there", who + "@" + nobody(t), "stranger", []string{"--give-up", "2s"}, 8, "node.orchestrator_unreachable", []string{who[:8]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), poolWithin)
			defer cancel()
			got := p.runIn(ctx, append([]string{"node", "--orchestrator", c.orchestrator, "--data", p.dir + "/" + c.data, "--listen", "127.0.0.1:0"}, c.flags...)...)
			if got.exit != c.exit || !strings.Contains(got.stderr, "code: "+c.code+"\n") {
				t.Errorf("exit %d, want %d and %s: %s", got.exit, c.exit, c.code, got.stderr)
			}
			for _, w := range c.words {
				if _, said, _ := strings.Cut(got.stderr, "muster: "); !strings.Contains(said, w) {
					t.Errorf("%s is not named in %s", w, said)
				}
			}
		})
	}
	if s := p.serving(); s.Run.Fault != nil {
		t.Errorf("the run was disturbed: %v", s.Run.Fault)
	}
	must(t, p.nodes["n1"].Process.Signal(syscall.SIGTERM))
	if err := waitFor(p.nodes["n1"], 15*time.Second); err != nil {
		t.Errorf("a node that is told to end: %v", err)
	}
}

func TestVerbsWithoutAnOrchestratorSaySo(t *testing.T) {
	b := newBench(t)
	b.env = append(b.env, "MUSTER_API=127.0.0.1:1")
	for _, args := range [][]string{{"status"}, {"run", "x"}, {"events"}, {"stop"}} {
		b.refuses("gateway.orchestrator_unreached", args...)
	}
	b.refuses("cli.flag_invalid", "node", "--orchestrator", "nobody", "--data", b.dir)
	b.refuses("cli.argument_unknown", "run", "two", "words")
}

// silent is an address at which nobody answers, and nobody one at which nothing
// listens.
func silent(t *testing.T) string {
	t.Helper()
	s, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s.LocalAddr().String()
}

func nobody(t *testing.T) string {
	t.Helper()
	s, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	must(t, s.Close())
	return s.LocalAddr().String()
}
