//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/id"
	"muster/internal/orch"
)

// Deadlines of what a trial waits for; beyond them it has failed.
const (
	sayWithin   = 30 * time.Second // the orchestrator where it listens
	serveWithin = 60 * time.Second // a pool serves, a next token comes
	errorWithin = 30 * time.Second // an answer ends
)

// pool is an orchestrator and its nodes, each a process.
type pool struct {
	s            *settings
	dir          string
	nodes        []*node
	serve        *process
	orchestrator string // ID@HOST:PORT
	api          *gateway.Client
	logs         []*os.File
	unplug       func() // removes the links; nil on loopback
}

// node is one of the pool's, whether its process runs or not.
type node struct {
	name  string
	id    id.NodeID
	cable *cable // nil on loopback
	*process
}

// newPool starts a pool of n nodes, with links of their own where those are to
// be cut. On an error nothing is left.
func newPool(ctx context.Context, s *settings, n int, links bool) (*pool, error) {
	p := &pool{s: s}
	err := p.form(ctx, n, links)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a pool of %d nodes: %w", n, err), p.end())
	}
	return p, nil
}

func (p *pool) form(ctx context.Context, n int, links bool) error {
	var err error
	if p.dir, err = os.MkdirTemp("", "muster-lossbench-"); err != nil {
		return err
	}
	host := "127.0.0.1"
	var cables []cable
	if links {
		host = hubAddress
		if cables, p.unplug, err = newCables(ctx, n); err != nil {
			return err
		}
	}
	args := []string{
		"serve", "--data", p.dir + "/orchestrator", "--listen", host + ":0", "--http", "127.0.0.1:0",
		"--profile", "local", "--stages", fmt.Sprint(n), "--threads", fmt.Sprint(p.s.threads),
	}
	for i := range n {
		o := &node{name: fmt.Sprintf("n%d", i+1)}
		if links {
			o.cable = &cables[i]
		}
		said, err := exec.CommandContext(ctx, p.s.binary, "node", "--id", "--data", p.data(o)).Output()
		if err != nil {
			return fmt.Errorf("the id of %s: %w", o.name, err)
		}
		if o.id, err = id.ParseNodeID(strings.TrimSpace(string(said))); err != nil {
			return err
		}
		args = append(args, "--node", o.id.String()+"="+o.name)
		p.nodes = append(p.nodes, o)
	}
	if err := p.startOrchestrator(ctx, args); err != nil {
		return err
	}
	for i := range p.nodes {
		if err := p.start(i); err != nil {
			return err
		}
	}
	_, err = p.serving(ctx)
	return err
}

func (p *pool) data(o *node) string { return filepath.Join(p.dir, o.name) }

func (p *pool) startOrchestrator(ctx context.Context, args []string) error {
	cmd, err := p.command("orchestrator", args...)
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	p.logs = append(p.logs, out)
	cmd.Stdout = in
	p.serve, err = start(cmd, nil)
	_ = in.Close() // the process has it
	if err != nil {
		return err
	}
	said := make(chan [2]string, 1)
	go func() { // ends with the process's output, or when that is closed
		defer close(said)
		var found [2]string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, o, ok := strings.Cut(lines.Text(), "--orchestrator "); ok {
				found[0] = strings.TrimSpace(o)
			}
			if _, api, ok := strings.Cut(lines.Text(), "others ask at:"); ok {
				found[1] = strings.TrimSpace(api)
				said <- found
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // it says nothing more of interest
	}()
	late := time.NewTimer(sayWithin)
	defer late.Stop()
	select {
	case found, ok := <-said:
		if !ok || found[0] == "" {
			return errors.New("the orchestrator ended without a word where it listens")
		}
		p.orchestrator, p.api = found[0], gateway.NewClient(found[1])
		return nil
	case <-late.C:
		return fmt.Errorf("the orchestrator has not said within %v where it listens", sayWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts a node, again where it was lost.
func (p *pool) start(i int) error {
	o := p.nodes[i]
	listen, in := "127.0.0.1:0", (*namespace)(nil)
	if o.cable != nil {
		listen, in = linkAddress(i)+":0", o.cable.in
	}
	cmd, err := p.command(o.name, "node", "--orchestrator", p.orchestrator, "--data", p.data(o), "--listen", listen)
	if err != nil {
		return err
	}
	o.process, err = start(cmd, in)
	return err
}

// command writes what the program says on its standard error to a log.
func (p *pool) command(name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p.logs = append(p.logs, log)
	cmd := exec.Command(p.s.binary, args...)
	cmd.Stderr = log
	return cmd, nil
}

// end leaves nothing of the pool.
func (p *pool) end() error {
	for _, o := range p.nodes {
		o.kill()
	}
	p.serve.kill()
	for _, f := range p.logs {
		_ = f.Close() // written by a process that has ended
	}
	if p.unplug != nil {
		p.unplug()
	}
	if p.s.keep {
		fmt.Println("  logs are in", p.dir)
		return nil
	}
	return os.RemoveAll(p.dir)
}

func (p *pool) status(ctx context.Context) (orch.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s orch.Status
	err := p.api.Status(ctx, &s)
	return s, err
}

// serving waits until requests are taken.
func (p *pool) serving(ctx context.Context) (orch.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, serveWithin)
	defer cancel()
	for {
		s, err := p.status(ctx)
		if err == nil && s.Serving && s.Run != nil {
			return s, nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return s, fmt.Errorf("it does not serve: %w", errors.Join(err, blockers(s), context.Cause(ctx)))
		}
	}
}

func blockers(s orch.Status) error {
	var all []error
	for _, b := range s.Pool.Blockers {
		all = append(all, errors.New(b.String()))
	}
	return errors.Join(all...)
}

// named finds a node by its place in the pool.
func (p *pool) named(name string) (int, error) {
	for i, o := range p.nodes {
		if o.name == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no node is called %q", name)
}

// caller names a node as the pool does, from its short id; a name stays as it is.
func (p *pool) caller(short string) string {
	for _, o := range p.nodes {
		if o.id.Short() == short {
			return o.name
		}
	}
	return short
}

// isRefusal reports whether a request was turned away because no run serves.
func isRefusal(err error) bool { return errors.Is(err, fault.OrchRequestRefused) }
