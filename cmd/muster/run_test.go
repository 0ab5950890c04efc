package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/demo"
	"muster/internal/gguf"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// bench is a folder in which the real programs are run as a user runs them.
type bench struct {
	t   *testing.T
	dir string
	env []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	testkit.Leaks(t)
	dir := t.TempDir()
	return &bench{t: t, dir: dir, env: append(os.Environ(),
		"MUSTER_ENGINE="+testkit.EngineDir(t),
		"TMPDIR="+dir, // what is left behind is seen
	)}
}

type outcome struct {
	stdout, stderr string
	exit           int
}

// run runs muster to its end.
func (b *bench) run(args ...string) outcome {
	b.t.Helper()
	return b.runIn(b.t.Context(), args...)
}

// runIn runs muster until ctx ends at the latest.
func (b *bench) runIn(ctx context.Context, args ...string) outcome {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, testkit.MusterBinary(b.t), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, b.env, &stdout, &stderr
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		b.t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// files lists what is in the folder.
func (b *bench) files() []string {
	b.t.Helper()
	var names []string
	err := filepath.WalkDir(b.dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return names
}

// write makes a file in the folder.
func (b *bench) write(name string, data []byte) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// random makes a model with random weights.
func (b *bench) random(name string, c randmodel.Config) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := randmodel.GenerateFile(path, c); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// patched is the built-in model with value written over what follows key and its
// value type.
func (b *bench) patched(name, key string, value ...byte) string {
	b.t.Helper()
	data := bytes.Clone(demo.Tale())
	at := bytes.Index(data, []byte(key))
	if at < 0 {
		b.t.Fatalf("no key %s", key)
	}
	copy(data[at+len(key)+4:], value)
	return b.write(name, data)
}

// part makes the first of three files of a split model, without the others.
func (b *bench) part(name string) string {
	b.t.Helper()
	var data bytes.Buffer
	err := gguf.Write(&data, []gguf.KV{
		gguf.Text("general.architecture", "llama"),
		{Key: "split.no", Type: gguf.KeyUint16, Value: []byte{0, 0}},
		{Key: "split.count", Type: gguf.KeyUint16, Value: []byte{3, 0}},
	}, nil, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.write(name, data.Bytes())
}

// refuses runs muster and demands that it ends by that fault: exit code from 1
// to 125 and as the catalogue has it, the code and a hint on stderr, and no
// file that was not there before.
func (b *bench) refuses(code string, args ...string) {
	b.t.Helper()
	before := b.files()
	got := b.run(args...)
	if got.exit < 1 || got.exit > 125 {
		b.t.Errorf("exit code %d", got.exit)
	}
	if !strings.Contains(got.stderr, "code: "+code+"\n") {
		b.t.Errorf("want the fault %s, stderr is\n%s", code, got.stderr)
	}
	if _, hint, found := strings.Cut(got.stderr, "hint: "); !found || len(strings.Fields(hint)) < 3 {
		b.t.Errorf("no hint in\n%s", got.stderr)
	}
	if after := b.files(); !slices.Equal(before, after) {
		b.t.Errorf("files were %q and are %q", before, after)
	}
}

// object reads what --json printed.
func object[T any](t *testing.T, got outcome) T {
	t.Helper()
	var v T
	if got.exit != 0 {
		t.Fatalf("exit code %d: %s", got.exit, got.stderr)
	}
	dec := json.NewDecoder(strings.NewReader(got.stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, got.stdout)
	}
	if dec.More() {
		t.Fatalf("more than one object: %s", got.stdout)
	}
	return v
}
