//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/internal/demo"
	"muster/internal/gguf"
	"muster/internal/preset"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

func TestAModelIsKeptByName(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	path := b.random("Small-F32.gguf", randmodel.Config{Layers: 3})
	added := object[preset.Preset](t, b.run("model", "add", "Small-F32.gguf", "--ctx", "128", "--chunk", "32", "--data", data, "--json"))
	if added.Name != "small-f32" || !slices.Equal(added.Files, []string{path}) || added.Recipe.Context != 128 || added.Recipe.Chunk != 32 {
		t.Errorf("added was %+v", added)
	}
	if said := b.does("model", "add", path, "--name", "second", "--data", data); said != "second: revision "+added.Revision+"\n" {
		t.Errorf("of the same file it said %q", said)
	}
	all := object[[]preset.Listed](t, b.run("model", "list", "--data", data, "--json"))
	var names []string
	for _, l := range all {
		if names = append(names, l.Name); l.Preset == nil || l.Name != demo.Name && l.Preset.Revision != added.Revision {
			t.Errorf("listed is %+v", l)
		}
	}
	if !slices.Equal(names, []string{"tale", "second", "small-f32"}) {
		t.Errorf("listed are %q", names)
	}
	shown := object[modelShown](t, b.run("model", "show", "small-f32", "--data", data, "--json"))
	if !slices.Equal(shown.Prompts, []int{16, 96}) || len(shown.Parts) != 3 || shown.Parts[2].Layers != [2]int{2, 3} || shown.Parts[1].Tolerance.Relative <= 0 {
		t.Errorf("shown is %+v", shown)
	}
	if page := b.does("model", "show", "small-f32", "--data", data); !strings.Contains(page, "prompts of 16 and 96 tokens") || strings.Count(page, "\n") != 11 {
		t.Errorf("it is shown as\n%s", page)
	}
	b.does("model", "verify", "small-f32", "--data", data)
	b.does("model", "verify", "tale", "--data", data)
	b.refuses("preset.name_taken", "model", "add", path, "--data", data)
	b.does("model", "rm", "second", "--data", data)
	b.refuses("preset.name_unknown", "model", "show", "second", "--data", data)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the model went with its preset: %v", err)
	}
}

// Any changed byte makes another revision, and the tensor it is in is named.
func TestVerifyNamesWhatHasChanged(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	path := b.random("model.gguf", randmodel.Config{Layers: 2})
	b.does("model", "add", path, "--data", data)
	whole, err := os.ReadFile(path)
	must(t, err)
	f, err := gguf.Read(bytes.NewReader(whole), int64(len(whole)), path)
	must(t, err)
	for _, tensor := range f.Tensors {
		for _, at := range []int64{tensor.Offset, tensor.Offset + tensor.Size - 1} {
			changed := bytes.Clone(whole)
			changed[at] ^= 0x01
			must(t, os.WriteFile(path, changed, 0o600))
			if said := b.denied("preset.model_changed", "model", "verify", "model", "--data", data); !strings.Contains(said, "what it was: "+tensor.Name+" changed\n") {
				t.Fatalf("byte %d, in %s: %s", at, tensor.Name, said)
			}
			if testing.Short() {
				break
			}
		}
	}
	key := bytes.Index(whole, []byte("general.name")) // its text stands 12 bytes behind
	if key < 0 {
		t.Fatal("the model has no name")
	}
	changed := bytes.Clone(whole)
	changed[key+len("general.name")+12] ^= 0x01
	must(t, os.WriteFile(path, changed, 0o600))
	if said := b.denied("preset.model_changed", "model", "verify", "model", "--data", data); !strings.Contains(said, "keys of the header changed") {
		t.Error(said)
	}
	changed = append(bytes.Clone(whole), 0) // no tensor and no key
	must(t, os.WriteFile(path, changed, 0o600))
	if said := b.denied("preset.model_changed", "model", "verify", "model", "--data", data); !strings.Contains(said, "padding or layout changed") {
		t.Error(said)
	}
	must(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	b.refuses("gguf.data_truncated", "model", "verify", "model", "--data", data)
	must(t, os.Remove(path))
	b.refuses("gguf.file_missing", "model", "verify", "model", "--data", data)
}

func TestABadModelIsNotAdded(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	file := b.write("file", []byte("x"))
	good := b.random("good.gguf", randmodel.Config{Layers: 1})
	whole := demo.Tale()
	add := func(path string, flags ...string) []string {
		return append([]string{"model", "add", path, "--data", data}, flags...)
	}
	for code, args := range map[string][]string{
		"fetch.url_invalid":              add("ftp://127.0.0.1/model.gguf"),
		"cli.flag_invalid":               add(good, "--sha256", "00"),
		"preset.name_invalid":            add(good, "--name", "no/name"),
		"preset.name_taken":              add(good, "--name", "tale"),
		"preset.folder_unreadable":       {"model", "add", good, "--data", file},
		"preset.folder_unwritable":       {"model", "add", good, "--data", "/proc/muster"},
		"recipe.invalid":                 add(good, "--chunk", "0"),
		"engine.libraries_missing":       add(good, "--engine", b.dir),
		"gguf.file_missing":              add("nowhere.gguf"),
		"gguf.magic_wrong":               add(b.write("garbage.gguf", bytes.Repeat([]byte("garbage "), 20))),
		"gguf.data_truncated":            add(b.write("half.gguf", whole[:len(whole)/2])),
		"model.architecture_unsupported": add(b.patched("other.gguf", "general.architecture", 5, 0, 0, 0, 0, 0, 0, 0, 'm')),
		"preset.numbers_invalid":         add(b.notANumber("nan.gguf")),
		"preset.built_in_refused":        {"model", "rm", "tale", "--data", data},
		"preset.name_unknown":            {"model", "rm", "nobody", "--data", data},
		"cli.argument_unknown":           {"model", "add", "--data", data},
	} {
		t.Run(code, func(t *testing.T) {
			b.t = t
			must(t, os.MkdirAll(data, 0o700))
			b.refuses(code, args...)
		})
	}
}

// notANumber is a model of which one weight is NaN.
func (b *bench) notANumber(name string) string {
	b.t.Helper()
	path := b.random(name, randmodel.Config{Layers: 2})
	f, err := gguf.Open(path)
	must(b.t, err)
	tensor, ok := f.Tensor("blk.1.ffn_norm.weight")
	must(b.t, f.Close())
	if !ok {
		b.t.Fatal("the model has no such tensor")
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(b.t, err)
	_, err = file.WriteAt([]byte{0, 0, 0xc0, 0x7f}, tensor.Offset)
	must(b.t, err)
	must(b.t, file.Close())
	return path
}

// adding starts to add a model and returns when the preset has been begun.
func (b *bench) adding(data, path string) (cmd *exec.Cmd, said *bytes.Buffer) {
	b.t.Helper()
	cmd = exec.Command(testkit.MusterBinary(b.t), "model", "add", path, "--name", "model", "--data", data)
	cmd.Dir, cmd.Env = b.dir, b.env
	stderr, err := cmd.StderrPipe()
	must(b.t, err)
	must(b.t, cmd.Start())
	said = new(bytes.Buffer)
	for line := ""; !strings.Contains(line, "layers"); {
		one := make([]byte, 1)
		if _, err := stderr.Read(one); err != nil {
			b.t.Fatalf("it said %q and ended", said)
		}
		line += string(one)
		said.Write(one)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(said, stderr) // its end is the process'
	}()
	b.t.Cleanup(func() { <-done })
	return cmd, said
}

// Whoever stops an add finds nothing of it; what is left by one that is killed
// is swept by the next verb, and the name is free.
func TestAnAddThatEndsEarlyLeavesNothing(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint(sig), func(t *testing.T) {
			b := newBench(t)
			data := filepath.Join(b.dir, "data")
			must(t, os.MkdirAll(data, 0o700))
			path := b.random("random.gguf", randmodel.Config{Layers: 16, Width: 256})
			before := b.files()
			cmd, said := b.adding(data, path)
			must(t, cmd.Process.Signal(sig))
			err := cmd.Wait()
			if exit := cmd.ProcessState.ExitCode(); sig != syscall.SIGKILL && exit != 10 {
				t.Errorf("exit %d (%v): %s", exit, err, said)
			}
			b.does("model", "list", "--data", data)
			if sig == syscall.SIGKILL {
				must(t, os.Remove(filepath.Join(data, "presets"))) // which is empty
			}
			if after := b.files(); !slices.Equal(before, after) {
				t.Errorf("files were %q and are %q", before, after)
			}
			b.does("model", "add", b.random("random.gguf", randmodel.Config{Layers: 1}), "--name", "model", "--data", data)
		})
	}
}

// A model is fetched by its address, kept by its name and removed with it. A
// download that ended early is taken up, and rm removes what there is of one.
func TestAModelIsFetched(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	must(t, os.MkdirAll(data, 0o700))
	content, err := os.ReadFile(b.random("origin.gguf", randmodel.Config{Layers: 1}))
	must(t, err)
	asks := make(chan string, 16)
	var tries atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks <- r.Header.Get("Range")
		w.Header().Set("ETag", `"x"`)
		if tries.Add(1) == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:1000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	url := server.URL + "/small.gguf"
	b.does("model", "add", url, "--data", data)
	if first, second := <-asks, <-asks; first != "" || second != "bytes=1000-" {
		t.Errorf("asked for %q and %q", first, second)
	}
	file := filepath.Join(data, "models", "small", "small.gguf")
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came (%v)", len(got), err)
	}
	if out := b.does("model", "verify", "small", "--data", data); !strings.Contains(out, "are what they were") {
		t.Errorf("verify says %q", out)
	}
	b.refuses("preset.name_taken", "model", "add", url, "--data", data)
	if out := b.does("model", "rm", "small", "--data", data); !strings.Contains(out, "with the files that were fetched") {
		t.Errorf("rm says %q", out)
	}
	if left, err := filepath.Glob(data + "/models*"); err != nil || len(left) != 0 {
		t.Errorf("left is %q (%v)", left, err)
	}
	b.denied("fetch.digest_mismatched", "model", "add", url, "--data", data, "--sha256", strings.Repeat("00", 32))
	b.does("model", "rm", "small", "--data", data)
	b.refuses("preset.name_unknown", "model", "rm", "small", "--data", data)
}

// A pool is formed of a model by its preset's name: its stages are judged by the
// preset's reference. A file that is not the preset's any more is not planned on.
func TestAPoolServesAPresetByName(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "pool")
	path := b.random("small.gguf", randmodel.Config{Layers: 3})
	b.does("model", "add", path, "--name", "lab", "--data", filepath.Join(data, "orchestrator"))
	serve := []string{"up", "--nodes", "2", "--model", "lab", "--data", data, "--prompt", "Once", "--max-tokens", "4", "--ctx", "64"}
	if r := b.run(serve...); r.exit != 0 || strings.Count(r.stderr, " to the reference, ") != 2 {
		t.Fatalf("exit %d: %s", r.exit, r.stderr)
	}
	whole, err := os.ReadFile(path)
	must(t, err)
	whole[len(whole)-1] ^= 1
	must(t, os.WriteFile(path, whole, 0o600))
	b.refuses("preset.model_changed", serve...)
}
