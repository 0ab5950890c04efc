//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/gateway"
	"muster/internal/id"
	"muster/internal/orch"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// How long a test waits: for a fault to reach the client, which the product
// promises, and for what has no promise but must come.
const (
	faultWithin = 10 * time.Second
	poolWithin  = 60 * time.Second
	goneWithin  = 10 * time.Second
)

// pool is an orchestrator with its nodes, each a real process.
type pool struct {
	*bench
	log          string   // folder of what the processes say
	serves       []string // the orchestrator's flags beside its addresses
	listen, http string   // where it is found; port 0 until it has started
	orchestrator string   // ID@HOST:PORT
	server       *exec.Cmd
	nodes        map[string]*exec.Cmd
	started      int
}

// newPool forms a pool of n nodes, n1 and so on, that serves a model in n
// stages: the built-in one, unless a flag names another.
func newPool(t *testing.T, n int, flags ...string) *pool {
	t.Helper()
	testkit.Need(t, testkit.Linux)
	p := &pool{
		bench: newBench(t), log: t.TempDir(), listen: "127.0.0.1:0", http: "127.0.0.1:0", nodes: map[string]*exec.Cmd{},
		serves: append([]string{"--profile", "local", "--stages", fmt.Sprint(n), "--threads", "1"}, flags...),
	}
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		got := p.run("node", "--id", "--data", p.dir+"/"+name)
		if got.exit != 0 {
			t.Fatal(got.stderr)
		}
		p.serves = append(p.serves, "--node", strings.TrimSpace(got.stdout)+"="+name)
		p.nodes[name] = nil
	}
	t.Cleanup(p.tellLogs)
	p.startServer()
	for name := range p.nodes {
		p.start(name)
	}
	return p
}

// startServer starts the orchestrator, or starts it again where it was.
func (p *pool) startServer() {
	p.t.Helper()
	var stdout io.Reader
	p.server, stdout = p.spawn("orchestrator", append([]string{"serve", "--data", p.dir + "/orchestrator", "--listen", p.listen, "--http", p.http}, p.serves...)...)
	said := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		said += lines.Text() + "\n"
		if _, o, found := strings.Cut(lines.Text(), "--orchestrator "); found {
			p.orchestrator = o
		}
		if _, api, found := strings.Cut(lines.Text(), "others ask at:"); found {
			_, p.listen, _ = strings.Cut(p.orchestrator, "@")
			p.http = strings.TrimSpace(api)
			p.env = append(p.env, "MUSTER_API="+p.http)
			return
		}
	}
	p.t.Fatalf("the orchestrator did not say how to join: %s", said)
}

// spawn starts muster; it is killed at the end of the test if it still runs.
func (p *pool) spawn(name string, args ...string) (*exec.Cmd, io.Reader) {
	p.t.Helper()
	p.started++
	stderr, err := os.Create(filepath.Join(p.log, fmt.Sprintf("%03d-%s", p.started, name)))
	must(p.t, err)
	cmd := exec.Command(testkit.MusterBinary(p.t), args...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.env, stderr
	stdout, err := cmd.StdoutPipe()
	must(p.t, err)
	must(p.t, cmd.Start())
	must(p.t, stderr.Close())
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, stdout
}

// tellLogs shows the end of what every process said, where the test has failed.
func (p *pool) tellLogs() {
	if !p.t.Failed() {
		return
	}
	logs, _ := filepath.Glob(p.log + "/*") // the pattern is sound
	for _, path := range logs {
		said, err := os.ReadFile(path)
		must(p.t, err)
		p.t.Logf("%s:\n%s", filepath.Base(path), said[max(0, len(said)-4000):])
	}
}

func (p *pool) start(name string, flags ...string) {
	p.t.Helper()
	p.nodes[name], _ = p.spawn(name, append([]string{
		"node", "--orchestrator", p.orchestrator, "--data", p.dir + "/" + name, "--listen", "127.0.0.1:0",
	}, flags...)...)
}

func (p *pool) kill(name string) {
	p.t.Helper()
	p.end(p.nodes[name])
}

// end kills a process and waits until it has gone.
func (p *pool) end(cmd *exec.Cmd) {
	p.t.Helper()
	must(p.t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

func (p *pool) signal(pid int, s syscall.Signal) {
	p.t.Helper()
	must(p.t, syscall.Kill(pid, s))
}

// pid is a node's process.
func (p *pool) pid(name string) int { return p.nodes[name].Process.Pid }

// worker is the process of a node's one worker.
func (p *pool) worker(name string) int {
	p.t.Helper()
	all := children(p.t, p.pid(name))
	if len(all) != 1 {
		p.t.Fatalf("%s has the child processes %v, want its worker alone", name, all)
	}
	return all[0]
}

// serving waits until requests are taken.
func (p *pool) serving() orch.Status {
	p.t.Helper()
	return p.servingAfter(id.RunID{})
}

// servingAfter waits until requests are taken by another run than the one
// before.
func (p *pool) servingAfter(former id.RunID) orch.Status {
	p.t.Helper()
	var last outcome
	for deadline := time.Now().Add(poolWithin); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if last = p.run("status", "--json"); last.exit != 0 {
			continue
		}
		if s := object[orch.Status](p.t, last); s.Serving && s.Run.Run != former {
			return s
		}
	}
	p.t.Fatalf("the pool does not serve: %s%s", last.stdout, p.run("status").stdout)
	return orch.Status{}
}

// answerOf is what `muster run --json` prints.
type answerOf struct {
	Text string `json:"text"`
	gateway.Done
}

// asked is a `muster run` whose answer has begun.
type asked struct {
	p     *pool
	ended chan outcome
}

// ask has a prompt answered and returns in the middle of the answer. On a
// machine that is overloaded a run may be lost before anything was done to it:
// then the next one is asked.
func (p *pool) ask() *asked {
	p.t.Helper()
	for deadline := time.Now().Add(poolWithin); ; p.serving() {
		a, begun := p.tryAsk()
		if begun {
			return a
		}
		if got := <-a.ended; time.Now().After(deadline) {
			p.t.Fatalf("no answer begins: %s", got.stderr)
		}
	}
}

func (p *pool) tryAsk() (a *asked, begun bool) {
	p.t.Helper()
	a = &asked{p: p, ended: make(chan outcome, 1)}
	cmd := exec.CommandContext(p.t.Context(), testkit.MusterBinary(p.t), "run", "Once upon a time")
	var stderr strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.env, &stderr
	stdout, err := cmd.StdoutPipe()
	must(p.t, err)
	must(p.t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 60))
	go func() {
		_, _ = io.Copy(io.Discard, stdout) // the rest of an answer that is lost
		_ = cmd.Wait()                     // its exit code is looked at
		a.ended <- outcome{stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
	}()
	return a, err == nil
}

// faults demands that the answer ends, in the time that is promised, by one of
// the codes and with its exit code, and says all the words.
func (a *asked) faults(exit int, codes []string, words ...string) {
	a.p.t.Helper()
	select {
	case got := <-a.ended:
		if got.exit != exit || !slices.ContainsFunc(codes, func(c string) bool { return strings.Contains(got.stderr, "code: "+c+"\n") }) {
			a.p.t.Errorf("exit %d, want %d and one of %v: %s", got.exit, exit, codes, got.stderr)
		}
		for _, w := range words {
			if !strings.Contains(got.stderr, w) {
				a.p.t.Errorf("%s is not named in %s", w, got.stderr)
			}
		}
		if _, hint, found := strings.Cut(got.stderr, "hint: "); !found || len(strings.Fields(hint)) < 3 {
			a.p.t.Errorf("no hint in %s", got.stderr)
		}
	case <-time.After(faultWithin):
		a.p.t.Fatalf("the answer does not end: %s", a.p.run("status").stdout)
	}
}

// answers waits until a short answer comes whole.
func (p *pool) answers() {
	p.t.Helper()
	for deadline := time.Now().Add(poolWithin); ; p.serving() {
		got := p.run("run", "Once upon a time", "--max-tokens", "5")
		if got.exit == 0 {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the next run does not answer: %s", got.stderr)
		}
	}
}

// endless writes a model whose answer fills its context, which takes seconds:
// a blow falls in the middle of it.
func endless(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "endless.gguf")
	must(t, randmodel.GenerateFile(path, randmodel.Config{
		Layers: 6, Width: 256, Vocabulary: 16384, Context: 4096, Type: "q8_0", Tied: true, Seed: 1,
	}))
	return path
}

// waitFor waits for a process that is to end well.
func waitFor(cmd *exec.Cmd, within time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(within):
		_ = cmd.Process.Kill()
		return errors.Join(errors.New("it does not end"), <-ended)
	}
}
