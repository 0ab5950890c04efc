package endpoint_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/id"
)

// nodeProcess names the variable that makes a copy of this binary a node.
const nodeProcess = "MUSTER_TEST_ENDPOINT"

// order is what a node process is told.
type order struct {
	Seed   string
	Listen string
	Peer   id.NodeID // the one peer it knows
	At     string    // its address
	Dial   string    // protocol by which it calls the peer at its start; "" for none
}

// serveAsProcess is a node that echoes until it is killed or its stdin ends.
func serveAsProcess(told string) {
	var o order
	if err := json.Unmarshal([]byte(told), &o); err != nil {
		panic(err)
	}
	seed, err := hex.DecodeString(o.Seed)
	if err != nil {
		panic(err)
	}
	echo := func(_ context.Context, _ id.NodeID, s endpoint.Stream) {
		sent, _ := io.ReadAll(s)
		_, _ = fmt.Fprintf(s, "%d %s", os.Getpid(), sent)
	}
	e, err := endpoint.Open(endpoint.Config{
		Key: ed25519.NewKeyFromSeed(seed), Listen: o.Listen, IdleTimeout: time.Minute,
		Protocols: []endpoint.Protocol{{Name: echoProtocol, Bidi: echo}, {Name: swimProtocol, Bidi: echo}},
	})
	if err != nil {
		panic(err)
	}
	e.Permit(1, map[id.NodeID][]string{o.Peer: {o.At}})
	if o.Dial != "" {
		s, err := e.OpenStream(context.Background(), o.Peer, o.Dial)
		if err != nil {
			panic(err)
		}
		if _, err := converse(s, "I am here"); err != nil {
			panic(err)
		}
	}
	fmt.Println(e.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// process is a node in a process of its own.
type process struct {
	cmd  *exec.Cmd
	id   id.NodeID
	addr string
	pid  string
}

func startProcess(t *testing.T, key ed25519.PrivateKey, listen string, peer *node, dial string) *process {
	t.Helper()
	told, err := json.Marshal(order{hex.EncodeToString(key.Seed()), listen, peer.ID(), peer.addr(), dial})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), nodeProcess+"="+string(told))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, id: idOf(key), pid: fmt.Sprint(cmd.Process.Pid)}
	t.Cleanup(func() {
		_ = stdin.Close()
		p.kill()
	})
	if p.addr, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the process said nothing: %v", err)
	}
	p.addr = p.addr[:len(p.addr)-1]
	return p
}

// kill ends the process without a word to its peers.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// mustAnswer fails the test unless this very process answers n.
func (p *process) mustAnswer(n *node) {
	n.t.Helper()
	if answer, err := n.call(p.id, echoProtocol, "x"); err != nil || answer != p.pid+" x" {
		n.t.Fatalf("%q, %v; want process %s", answer, err, p.pid)
	}
}

func needsSignals(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such signals")
	}
}
