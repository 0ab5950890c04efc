package node

import (
	"crypto/ed25519"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"muster/internal/core/boot"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/identity"
	"muster/internal/testkit"
	"muster/internal/testkit/fakeworker"
	"muster/internal/wire"
	"muster/internal/wire/controlpb"
)

// Each resource in turn is not what it must be. The node says so by a typed
// fault of that fact, is never available, and leaves nothing behind.
func TestEachFactFailsByItsOwnFault(t *testing.T) {
	short := func(f boot.Fact, d time.Duration) func(*orchestrator, *Config) {
		return func(_ *orchestrator, c *Config) { c.Within.Within[f] = d }
	}
	all := func(changes ...func(*orchestrator, *Config)) func(*orchestrator, *Config) {
		return func(o *orchestrator, c *Config) {
			for _, change := range changes {
				change(o, c)
			}
		}
	}
	knobs := func(k fakeworker.Knobs) func(*orchestrator, *Config) {
		return func(_ *orchestrator, c *Config) { c.workerEnv = k.Env() }
	}
	key := func(write func(path string) error) func(*orchestrator, *Config) {
		return func(o *orchestrator, c *Config) {
			if err := write(c.KeyPath); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	refuse := func(f *fault.Fault) func(*orchestrator, *Config) {
		return func(o *orchestrator, _ *Config) { o.refusal = f }
	}
	for _, c := range []struct {
		name   string
		change func(*orchestrator, *Config)
		fact   boot.Fact
		code   fault.Code
		ends   bool // the process
	}{
		{"the worker's binary is missing", func(_ *orchestrator, c *Config) { c.Binary = "/nowhere/muster-worker" }, boot.Worker, fault.WorkerBinaryMissing, false},
		{"the worker exits at its start", knobs(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3}), boot.Worker, fault.WorkerExited, false},
		{"the worker is killed", knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpTrial), Do: fakeworker.Signal, Number: int(syscall.SIGKILL)}), boot.Worker, fault.WorkerKilled, false},
		{"the worker hangs at its start", all(short(boot.Worker, 2*time.Second), knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Hang})), boot.Worker, fault.WorkerBootOverdue, false},
		{"the worker hangs in its forward", all(short(boot.Worker, 2*time.Second), knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpTrial), Do: fakeworker.Hang})), boot.Worker, fault.WorkerCallOverdue, false},
		{"the engine is of another ABI", knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Refuse, Text: string(fault.EngineABIMismatched)}), boot.Worker, fault.EngineABIMismatched, false},
		{"the engine's libraries are missing", knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Refuse, Text: string(fault.EngineMissing)}), boot.Worker, fault.EngineMissing, false},
		{"the worker speaks another protocol", knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpOpen), Do: fakeworker.Refuse, Text: string(fault.WorkerProtocolBroken)}), boot.Worker, fault.WorkerProtocolBroken, false},
		{"the worker babbles", knobs(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Say, Text: "hello\n"}), boot.Worker, fault.WorkerProtocolBroken, false},
		{"the worker's binary is no program", func(o *orchestrator, c *Config) { c.Binary = textFile(o.t) }, boot.Worker, fault.WorkerBinaryRefused, false},
		{"the device fails its forward", knobs(fakeworker.Knobs{At: fakeworker.On(wire.OpTrial), Do: fakeworker.Refuse, Text: string(fault.StageDecodeFailed)}), boot.Worker, fault.StageDecodeFailed, false},
		{"the worker sees other memory", knobs(fakeworker.Knobs{BadEcho: true}), boot.Worker, fault.NodeEchoBroken, false},
		{"the port is taken", func(o *orchestrator, c *Config) { c.Listen = o.endpoint.Addr().String() }, boot.Endpoint, fault.EndpointPortTaken, false},
		{"the address is not of this machine", func(_ *orchestrator, c *Config) { c.Listen = "192.0.2.1:0" }, boot.Endpoint, fault.EndpointBindRefused, false},
		{"the key file has a bit flipped", key(func(p string) error {
			return errors.Join(makeKey(p), edit(p, func(b []byte) { b[len(b)-10] ^= 1 }))
		}), boot.Identity, fault.IdentityKeyCorrupt, true},
		{"the key file is open to all", key(func(p string) error { return errors.Join(makeKey(p), os.Chmod(p, 0o644)) }), boot.Identity, fault.IdentityKeyTooOpen, true},
		{"the key's path is a folder", key(func(p string) error { return os.Mkdir(p, 0o700) }), boot.Identity, fault.IdentityKeyUnreadable, true},
		{"the pool is another", refuse(fault.New(fault.PoolUnknown, "orch", "pool", "x", "have", "test")), boot.Identity, fault.PoolUnknown, true},
		{"the id is not in the pool", refuse(fault.New(fault.PoolNodeUnknown, "orch", "node", "x", "pool", "test")), boot.Identity, fault.PoolNodeUnknown, true},
		{"the id is held by another boot", refuse(fault.New(fault.NodeIDContested, "orch", "name", "n", "endpoint", "a", "rival", "b")), boot.Identity, fault.NodeIDContested, true},
		{"the orchestrator is another", func(_ *orchestrator, c *Config) { c.Orchestrator = id.NodeIDOf(newKey(t).Public().(ed25519.PublicKey)) }, boot.Identity, fault.EndpointIdentityMismatched, true},
		{"the orchestrator is not there", all(short(boot.Identity, time.Second), func(o *orchestrator, c *Config) { c.OrchestratorAddr = silent(o.t) }), boot.Identity, fault.NodeOrchestratorUnreachable, false},
		{"nothing listens at the orchestrator's port", all(short(boot.Identity, time.Second), func(o *orchestrator, c *Config) { c.OrchestratorAddr = closed(o.t) }), boot.Identity, fault.NodeOrchestratorUnreachable, false},
		{"the seed takes no part in SWIM", func(*orchestrator, *Config) {}, boot.Swim, fault.MemberJoinFailed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.Leaks(t)
			o := newOrchestrator(t, func(o *orchestrator) { o.mute = c.fact == boot.Swim })
			cfg := o.config(fakeworker.Knobs{})
			c.change(o, &cfg)
			n := o.run(cfg)
			n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
			got := latest[event.NodeFaulted](n)
			if got.Fact != c.fact.String() || got.Fault.Code != c.code {
				t.Errorf("%s faulted: %v", got.Fact, got.Fault)
			}
			if got.Fault.Hint() == "" {
				t.Errorf("it says %q, %q", got.Fault, got.Fault.Hint())
			}
			var err error
			if c.ends {
				err = n.outcome()
			} else {
				err = n.end()
			}
			if c.ends != (err != nil) || c.ends && fault.From(err).Code != c.code {
				t.Errorf("the process ended with %v", err)
			}
			if count[event.NodeBecameAvailable](n) != 0 || o.reported(n.status().Node, isAvailable) != 0 {
				t.Error("the node was available")
			}
		})
	}
}

// A mailbox that answers with another nonce or boot is another's, or broken.
func TestAnAnswerToAnotherPingProvesNothing(t *testing.T) {
	n := newNode(Config{}, id.BootID{1})
	t.Cleanup(n.end)
	for _, c := range []struct {
		pong  *controlpb.Pong
		sound bool
	}{
		{&controlpb.Pong{Nonce: 7, BootId: controlpb.ID(n.bootID)}, true},
		{&controlpb.Pong{Nonce: 8, BootId: controlpb.ID(n.bootID)}, false},
		{&controlpb.Pong{Nonce: 7, BootId: controlpb.ID(id.BootID{2})}, false},
		{nil, false},
	} {
		if err := n.own(c.pong, 7); (err == nil) != c.sound || err != nil && !errors.Is(err, fault.NodeHandlerBroken) {
			t.Errorf("%v: %v", c.pong, err)
		}
	}
}

// A socket through which the node does not reach itself is no endpoint.
func TestASocketThatLeadsNowhereIsAFault(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	n := o.begin(o.config(fakeworker.Knobs{}), true, func(n *node) {
		net, err := openNetwork(n, newKey(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := net.endpoint.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.network.Store(net)
	})
	n.until("a fault", func() bool { return count[event.NodeFaulted](n) > 0 })
	if f := latest[event.NodeFaulted](n); f.Fact != boot.Endpoint.String() || f.Fault.Code != fault.EndpointSocketClosed {
		t.Errorf("%s faulted: %v", f.Fact, f.Fault)
	}
	n.available(1)
	if err := n.end(); err != nil {
		t.Error(err)
	}
}

// silent is an address at which nobody answers.
func silent(t testing.TB) string {
	t.Helper()
	s, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.LocalAddr().String()
}

// closed is an address at which nothing listens.
func closed(t testing.TB) string {
	t.Helper()
	s, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.LocalAddr().String()
}

// textFile may be executed, as far as its mode goes.
func textFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "muster-worker")
	if err := os.WriteFile(path, []byte("no program\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func makeKey(path string) error {
	_, err := identity.LoadOrMake(path)
	return err
}

// edit changes the bytes of a file in place.
func edit(path string, change func([]byte)) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	change(b)
	return os.WriteFile(path, b, 0o600)
}

func TestAConfigurationThatCannotBe(t *testing.T) {
	for _, c := range []Config{
		{},
		{KeyPath: filepath.Join(t.TempDir(), "k"), Listen: "127.0.0.1:0", OrchestratorAddr: "127.0.0.1:1", Version: "test"},
	} {
		if err := Run(t.Context(), c); fault.From(err).Code != fault.NodeConfigInvalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTheNodeGivesUpInTime(t *testing.T) {
	testkit.Leaks(t)
	o := newOrchestrator(t)
	cfg := o.config(fakeworker.Knobs{At: fakeworker.AtStart, Do: fakeworker.Exit, Number: 3})
	cfg.GiveUp = 3 * time.Second
	n := o.run(cfg)
	if err := n.outcome(); fault.From(err).Code != fault.WorkerExited {
		t.Errorf("it ended with %v", err)
	}
}
