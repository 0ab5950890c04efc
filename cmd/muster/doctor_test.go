//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/core/probe"
	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/reports"
	"muster/internal/testkit/randmodel"
)

// ended demands an exit code and the code of the fault on stderr.
func ended(t *testing.T, got outcome, want fault.Code) {
	t.Helper()
	if got.exit != want.Entry().Exit() || !strings.Contains(got.stderr, "code: "+string(want)+"\n") {
		t.Errorf("exit %d, want the fault %s: %s", got.exit, want, got.stderr)
	}
}

// tensorOf is where a tensor lies in a model's file.
func tensorOf(t *testing.T, path, name string) (from, to int64) {
	t.Helper()
	f, err := gguf.Open(path)
	must(t, err)
	defer f.Close()
	at, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	return at.Offset, at.Offset + at.Size
}

func TestDoctorExaminesLayersAndKeepsWhatItFound(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	r := object[reports.Report](t, b.run("doctor", "--model", "tale", "--layers", "3:8", "--slots", "2", "--chunk", "64", "--data", data, "--json"))
	var names []string
	for _, c := range r.Findings.Checks {
		names = append(names, c.Name)
	}
	if want := probe.Required(true, true); !slices.Equal(names, want) || r.Failed != nil {
		t.Errorf("checks %v, want %v; failed by %v", names, want, r.Failed)
	}
	if r.Recipe.Slots != 2 || r.Recipe.Chunk != 64 || r.Findings.Layers != [2]int{3, 8} || r.Findings.Held != r.Recipe.Context {
		t.Errorf("it was another shard: %+v", r)
	}
	kept := object[reportsShown](t, b.run("doctor", "--last", "--data", data, "--json"))
	if len(kept.Reports) != 1 || !kept.Reports[0].At.Equal(r.At) {
		t.Errorf("kept are %+v", kept)
	}
	if text := b.does("doctor", "--last", "--data", data); !strings.Contains(text, "tale, layers 3 to 7: well") {
		t.Errorf("it reads %s", text)
	}
}

func TestDoctorComparesByTheRecipeOfTheReferenceAlone(t *testing.T) {
	b := newBench(t)
	data := filepath.Join(b.dir, "data")
	r := object[reports.Report](t, b.run("doctor", "--model", "tale", "--flash-attention", "off", "--data", data, "--json"))
	if r.Findings.Referenced || r.Failed != nil {
		t.Errorf("another flash attention than the reference's: %+v", r)
	}
}

// A shard that takes no notice of what came before fails, says by what, is kept
// as failed, and the exit code is that of its fault.
func TestDoctorFailsAShardByItsNumbers(t *testing.T) {
	b := newBench(t)
	model := b.random("m.gguf", randmodel.Config{})
	from, to := tensorOf(t, model, "blk.1.attn_output.weight")
	f, err := os.OpenFile(model, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, to-from), from)
	must(t, err)
	must(t, f.Close())
	args := []string{"doctor", "--model", model, "--layers", "1:2", "--ctx", "128", "--data", b.dir}
	got := b.run(args...)
	ended(t, got, fault.DoctorCheckFailed)
	for _, text := range []string{"layers 1 to 1: failed: sensitive", "[!] sensitive  another input makes a difference of 0 at least", "[x] repeat"} {
		if !strings.Contains(got.stdout, text) {
			t.Errorf("%q is not in %s", text, got.stdout)
		}
	}
	last := b.run("doctor", "--last", "--data", b.dir)
	ended(t, last, fault.DoctorCheckFailed)
	if !strings.Contains(last.stdout, "failed: sensitive") {
		t.Errorf("kept is %s", last.stdout)
	}
	got = b.run(append(args, "--json")...)
	ended(t, got, fault.DoctorCheckFailed)
	got.exit = 0
	if r := object[reports.Report](t, got); r.Failed == nil || r.Failed.Attr("check") != probe.Sensitive {
		t.Errorf("failed by %v", r.Failed)
	}
}

// A preset whose file has changed cannot be cut: that is a failed report too.
func TestDoctorNamesAChangedModel(t *testing.T) {
	b := newBench(t)
	model := b.write("m.gguf", demo.Tale())
	b.does("model", "add", model, "--name", "mine", "--ctx", "128", "--chunk", "32", "--data", b.dir)
	args := []string{"doctor", "--model", "mine", "--layers", "2:4", "--data", b.dir}
	if text := b.does(args...); !strings.Contains(text, "mine, layers 2 to 3: well") || !strings.Contains(text, "the preset's reference") {
		t.Errorf("it reads %s", text)
	}
	must(t, os.RemoveAll(filepath.Join(b.dir, "cache")))
	from, _ := tensorOf(t, model, "blk.2.attn_q.weight")
	changed := bytes.Clone(demo.Tale())
	changed[from] ^= 1
	b.write("m.gguf", changed)
	got := b.run(args...)
	ended(t, got, fault.GGUFDataChanged)
	if !strings.Contains(got.stdout, "blk.2.attn_q.weight") {
		t.Errorf("the tensor is not named: %s", got.stdout)
	}
	ended(t, b.run("doctor", "--last", "--data", b.dir), fault.GGUFDataChanged)
}

func TestDoctorOfThisMachine(t *testing.T) {
	b := newBench(t)
	m := object[machineShown](t, b.run("doctor", "--json"))
	for _, f := range m.Facts {
		if f.State != provenFact {
			t.Errorf("%s: %s, %v", f.Name, f.Detail, f.Fault)
		}
	}
	if len(m.Facts) != 5 || len(m.Devices) == 0 || len(m.Library) == 0 || len(m.Library[0].Digest) != 64 {
		t.Errorf("it shows %+v", m)
	}
	got := b.run("doctor", "--engine", b.dir)
	ended(t, got, fault.EngineMissing)
	for _, text := range []string{"[x] memory", "[!] engine", "[ ] worker     not tried: it needs the engine"} {
		if !strings.Contains(got.stdout, text) {
			t.Errorf("%q is not in %s", text, got.stdout)
		}
	}
}

func TestDoctorRefusesWhatCannotBe(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		want fault.Code
		args []string
	}{
		"no such file":     {fault.GGUFFileMissing, []string{"--model", "nothing.gguf"}},
		"no such preset":   {fault.PresetNameUnknown, []string{"--model", "nothing"}},
		"layers reversed":  {fault.CLIFlagInvalid, []string{"--model", "tale", "--layers", "5:2"}},
		"layers alone":     {fault.CLIFlagInvalid, []string{"--layers", "1:2"}},
		"a negative slot":  {fault.RecipeInvalid, []string{"--model", "tale", "--slots", "-1"}},
		"a KV type":        {fault.RecipeInvalid, []string{"--model", "tale", "--kv", "q3"}},
		"a small context":  {fault.RecipeInvalid, []string{"--model", "tale", "--ctx", "3"}},
		"nothing was kept": {fault.ReportsMissing, []string{"--last"}},
	} {
		t.Run(name, func(t *testing.T) {
			ended(t, b.run(append([]string{"doctor", "--data", filepath.Join(b.dir, name)}, c.args...)...), c.want)
		})
	}
}
