package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/internal/arena"
	"muster/internal/demo"
	"muster/internal/enginedir"
	"muster/internal/fault"
	"muster/internal/machine"
	"muster/internal/wire"
	"muster/internal/worker"
)

// machineFact is a line of what `muster doctor` says of this machine.
type machineFact struct {
	Name   string       `json:"name"`
	State  string       `json:"state"` // proven, failed, untried
	Detail string       `json:"detail"`
	Fault  *fault.Fault `json:"fault,omitempty"`
}

// The states of a fact.
const (
	provenFact  = "proven"
	failedFact  = "failed"
	untriedFact = "untried"
)

// machineShown is what `muster doctor --json` prints.
type machineShown struct {
	Facts   []machineFact       `json:"facts"`
	Devices []wire.Device       `json:"devices"`
	Library []enginedir.Library `json:"libraries"`
}

// machine proves what can be proven of this machine without a pool, each fact
// once those that it needs have been.
func (o *doctorOptions) machine(ctx context.Context, std stdio) error {
	m := &machineProof{o: o, std: std}
	var first *fault.Fault
	for _, p := range []struct {
		name, needs string
		prove       func(context.Context) (string, error)
	}{
		{"memory", "", m.memory},
		{"arena", "", m.arena},
		{"engine", "", m.engine},
		{"worker", "engine", m.worker},
		{"forward", "worker", m.forward},
	} {
		f := machineFact{Name: p.name, State: untriedFact, Detail: "not tried: it needs the " + p.needs}
		if p.needs == "" || m.proven(p.needs) {
			detail, err := p.prove(ctx)
			if ctx.Err() != nil {
				return fault.New(fault.RunInterrupted, "").Because(context.Cause(ctx))
			}
			f.State, f.Detail = provenFact, detail
			if err != nil {
				f.State, f.Fault = failedFact, fault.From(err)
				f.Detail = f.Fault.Error()
				if first == nil {
					first = f.Fault
				}
			}
		}
		m.shown.Facts = append(m.shown.Facts, f)
	}
	var err error
	if o.json {
		err = printJSON(std, m.shown)
	} else {
		err = written(io.WriteString(std.out, machineText(m.shown.Facts)))
	}
	if err == nil && first != nil {
		err = shown{first}
	}
	return err
}

// machineProof is a machine under examination.
type machineProof struct {
	o      *doctorOptions
	std    stdio
	shown  machineShown
	dir    string // of the engine
	binary string
}

func (m *machineProof) proven(name string) bool {
	for _, f := range m.shown.Facts {
		if f.Name == name {
			return f.State == provenFact
		}
	}
	return false
}

func (m *machineProof) memory(context.Context) (string, error) {
	free, ok := machine.MeasureMemory()
	if !ok {
		return "not measured on this system", nil
	}
	return fmt.Sprintf("%s of %s free", bytesText(int64(free.Available)), bytesText(int64(free.Total))), nil
}

// arena sends bytes through a ring in a memory file.
func (m *machineProof) arena(ctx context.Context) (detail string, err error) {
	const size = 64 << 10
	mem, err := arena.Create(arena.SizeFor(size))
	if err != nil {
		return "", err
	}
	defer func() { _ = mem.Close() }() // its one ring is of no more use
	r, err := mem.NewRing(size)
	if err != nil {
		return "", err
	}
	defer r.CloseBells()
	in, err := r.Producer()
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Detach() }() // only the ring's own bookkeeping can fail
	out, err := r.Consumer()
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Detach() }()
	sent := []byte("muster")
	if err := in.Write(ctx, sent); err != nil {
		return "", err
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(out.Reader(ctx), got); err != nil || string(got) != string(sent) {
		return "", fault.New(fault.NodeEchoBroken, "", "what", "other bytes came out of a ring than went in").Because(err)
	}
	return "a memory file with a ring, crossed", nil
}

func (m *machineProof) engine(context.Context) (string, error) {
	var err error
	if m.dir, err = findEngine(m.o.engine); err != nil {
		return "", err
	}
	if m.shown.Library, err = enginedir.Libraries(m.dir); err != nil {
		return "", err
	}
	lines := []string{m.dir}
	for _, l := range m.shown.Library {
		lines = append(lines, l.Digest+" "+l.Name)
	}
	return strings.Join(lines, "\n"), nil
}

// worker starts one, which loads the libraries behind the ABI guard.
func (m *machineProof) worker(ctx context.Context) (string, error) {
	var err error
	if m.binary, err = workerBinary(); err != nil {
		return "", err
	}
	w, err := worker.Start(ctx, worker.Spec{
		Name: "worker", Binary: m.binary, Engine: m.dir, Boot: 20 * time.Second, LogLevel: 4,
	})
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.Stop(ctx) // it has told all that was asked
	}()
	opened := w.Opened()
	m.shown.Devices = opened.Devices
	lines := []string{"llama.cpp " + opened.Engine}
	for _, d := range opened.Devices {
		lines = append(lines, fmt.Sprintf("%s %s: %s, %s of %s free", d.Kind, d.Name, d.Description,
			bytesText(int64(d.MemoryFree)), bytesText(int64(d.MemoryTotal))))
	}
	return strings.Join(lines, "\n"), nil
}

// forward examines the built-in model.
func (m *machineProof) forward(ctx context.Context) (string, error) {
	o := *m.o
	o.model, o.layers = demo.Name, ""
	o.named = func(string) bool { return false }
	s, err := o.open(ctx, newProgress(io.Discard))
	if err != nil {
		return "", err
	}
	defer s.close()
	if o.log {
		s.cfg.Log = func(line string) { fmt.Fprintln(m.std.err, line) }
	}
	r, err := s.examine(ctx)
	switch {
	case err != nil:
		return "", err
	case r.Failed != nil:
		return "", r.Failed
	}
	f := r.Findings
	return fmt.Sprintf("%s, layers %d to %d: %d checks passed, %.2f ms a token", demo.Name, f.Layers[0], f.Layers[1]-1, len(f.Checks), f.DecodeMicros/1000), nil
}
