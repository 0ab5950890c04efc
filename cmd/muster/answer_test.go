package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/testkit"
)

func TestJSONIsTheSameOnAnySplitAndInTheReference(t *testing.T) {
	b := newBench(t)
	ask := []string{"--json", "--prompt", "Once upon a time", "--max-tokens", "40", "--threads", "1"}
	want := object[answered](t, b.run(append([]string{"worker", "reference"}, ask...)...))
	if len(want.Tokens) != 40 || want.FinishReason != "length" || want.PromptTokens < 4 || want.Text == "" {
		t.Fatalf("the reference answered %+v", want)
	}
	for _, verb := range verbs {
		for _, nodes := range []string{"1", "2", "3", "5"} {
			got := object[answered](t, b.run(slices.Concat(verb, []string{"--nodes", nodes}, ask)...))
			if !slices.Equal(got.Tokens, want.Tokens) || got.Text != want.Text || got.PromptTokens != want.PromptTokens {
				t.Errorf("%v of %s answered %+v, the reference %+v", verb, nodes, got, want)
			}
			end := 0
			for _, st := range got.Stages {
				if st.Layers[0] != end || st.Layers[1] <= st.Layers[0] || st.ResidentBytes == 0 {
					t.Errorf("%v of %s: stage %+v does not follow on layer %d", verb, nodes, st, end)
				}
				end = st.Layers[1]
			}
			if end != 8 || got.Timings.ReadyMS <= 0 || got.Timings.TTFTMS <= 0 || got.Timings.TokensPerSecond <= 0 {
				t.Errorf("%v of %s: %d layers, %+v", verb, nodes, end, got.Timings)
			}
		}
	}
}

// Where to cut can be told: the nodes hold the parts in their order.
func TestCutsAreWhereTheyWereAsked(t *testing.T) {
	b := newBench(t)
	for _, verb := range verbs {
		got := object[answered](t, b.run(append(verb, "--cuts", "1,6", "--json", "--prompt", "One day", "--max-tokens", "3")...))
		var layers [][2]int
		for _, st := range got.Stages {
			layers = append(layers, st.Layers)
		}
		if !slices.Equal(layers, [][2]int{{0, 1}, {1, 6}, {6, 8}}) {
			t.Errorf("%v: the stages hold %v", verb, got.Stages)
		}
	}
}

func TestAWholeTaleEndsByItself(t *testing.T) {
	b := newBench(t)
	got := object[answered](t, b.run("up", "--nodes", "3", "--json", "--prompt", "Once upon a time"))
	if got.FinishReason != "stop" || len(got.Tokens) < 80 || !strings.HasSuffix(strings.TrimSpace(got.Text), ".") {
		t.Errorf("%s after %d tokens: %q", got.FinishReason, len(got.Tokens), got.Text)
	}
}

func TestTextGoesOnWhereThePromptEnds(t *testing.T) {
	b := newBench(t)
	got := b.run("up", "--nodes", "2", "--prompt", "Once upon a time", "--max-tokens", "12")
	if got.exit != 0 || !strings.HasPrefix(got.stdout, "Once upon a time there lived") || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("exit %d, stdout %q", got.exit, got.stdout)
	}
	for _, want := range []string{"n1: worker       proven in ", "pool ready: 2 nodes", "n2: layers 4 to 7 ready, "} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no word of %q on stderr: %s", want, got.stderr)
		}
	}
}

func TestLinesOfInputAreAnsweredInTurn(t *testing.T) {
	b := newBench(t)
	cmd := exec.CommandContext(t.Context(), testkit.MusterBinary(t), "up", "--max-tokens", "5")
	cmd.Env, cmd.Dir = b.env, b.dir
	cmd.Stdin = strings.NewReader("Once upon a time\n\nOne day\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "Once upon a time ") || !strings.HasPrefix(lines[1], "One day") {
		t.Errorf("answers %q", lines)
	}
}

func TestSlicesAreKeptInADataFolder(t *testing.T) {
	b := newBench(t)
	first := b.run("up", "--nodes", "2", "--data", b.dir+"/data", "--prompt", "One day", "--max-tokens", "5")
	kept := b.slices()
	second := b.run("up", "--nodes", "2", "--data", b.dir+"/data", "--prompt", "One day", "--max-tokens", "5")
	if first.exit != 0 || second.exit != 0 || first.stdout != second.stdout {
		t.Fatalf("exits %d and %d, answers %q and %q", first.exit, second.exit, first.stdout, second.stdout)
	}
	if !strings.Contains(first.stderr, "written") || strings.Contains(second.stderr, "written") {
		t.Errorf("the second start wrote again:\n%s", second.stderr)
	}
	if !slices.Equal(kept, b.slices()) {
		t.Errorf("files were %q and are %q", kept, b.slices())
	}
}

// slices are the files but for what a node's doctor found, which is kept of each
// start.
func (b *bench) slices() []string {
	return slices.DeleteFunc(b.files(), func(name string) bool { return filepath.Base(filepath.Dir(name)) == "reports" })
}

// Two on one folder do not mix: the workers' cache is for both, a pool's data
// for one at a time.
func TestTwoAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		folder func(i int) string
		locked bool
	}{
		"chains of one cache": {[]string{"worker", "chain"}, func(int) string { return "/data" }, false},
		"pools of their own":  {[]string{"up"}, func(i int) string { return fmt.Sprint("/data", i) }, false},
		"pools of one folder": {[]string{"up"}, func(int) string { return "/data" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			done := make(chan outcome, 2)
			for i := range 2 {
				go func() {
					done <- b.run(append(c.args, "--nodes", "2", "--data", b.dir+c.folder(i), "--prompt", "One day", "--max-tokens", "10", "--threads", "1")...)
				}()
			}
			one, two := <-done, <-done
			if one.exit != 0 {
				one, two = two, one
			}
			switch {
			case one.exit == 0 && two.exit == 0 && one.stdout == two.stdout:
			case c.locked && one.exit == 0 && strings.Contains(two.stderr, "code: store.folder_locked"):
			default:
				t.Errorf("exits %d and %d, answers %q and %q\n%s\n%s", one.exit, two.exit, one.stdout, two.stdout, one.stderr, two.stderr)
			}
		})
	}
}

func TestEngineShowsWhatIsFound(t *testing.T) {
	b := newBench(t)
	found := object[engineFound](t, b.run("engine", "--json"))
	if found.Version == "" || found.Path == "" || len(found.Devices) == 0 || len(found.Libraries) < 3 {
		t.Errorf("found %+v", found)
	}
	for _, l := range found.Libraries {
		if len(l.Digest) != 64 {
			t.Errorf("%s has the digest %q", l.Name, l.Digest)
		}
	}
}

func TestAPromptThatCannotBeDoesNotEndTheSession(t *testing.T) {
	b := newBench(t)
	cmd := exec.CommandContext(t.Context(), testkit.MusterBinary(t), "up", "--max-tokens", "3")
	cmd.Env, cmd.Dir = b.env, b.dir
	cmd.Stdin = strings.NewReader(strings.Repeat("ab ", 2000) + "\n\x80\nOne day\n")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "One day") {
		t.Errorf("answered %q, %v", out, err)
	}
	for _, code := range []string{"request.prompt_too_long", "request.prompt_invalid"} {
		if !strings.Contains(stderr.String(), "code: "+code) {
			t.Errorf("no word of %s in\n%s", code, stderr.String())
		}
	}
}

func TestAnEndlessLineIsTold(t *testing.T) {
	b := newBench(t)
	cmd := exec.CommandContext(t.Context(), testkit.MusterBinary(t), "up", "--max-tokens", "3")
	cmd.Env, cmd.Dir = b.env, b.dir
	cmd.Stdin = strings.NewReader(strings.Repeat("a", longestLine+1))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "code: cli.input_failed") {
		t.Errorf("ended with %v: %s", err, out)
	}
}

func TestOutputThatCannotBeWrittenIsAFault(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	for _, args := range [][]string{
		{"up", "--prompt", "One day", "--max-tokens", "3"},
		{"up", "--prompt", "One day", "--max-tokens", "3", "--json"},
		{"engine"},
		{"engine", "--json"},
		{"version"},
	} {
		b := newBench(t)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), testkit.MusterBinary(t), args...)
		var stderr strings.Builder
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = b.env, b.dir, full, &stderr
		_ = cmd.Run() // its exit code is looked at
		if cmd.ProcessState.ExitCode() != 9 || !strings.Contains(stderr.String(), "code: cli.output_failed") {
			t.Errorf("%v: exit %d, %s", args, cmd.ProcessState.ExitCode(), stderr.String())
		}
		if err := full.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The likeliest token is certain long before the temperature is as low as this.
func TestTheColdestTemperaturesAreGreedy(t *testing.T) {
	b := newBench(t)
	ask := []string{"up", "--json", "--prompt", "Once upon a time", "--max-tokens", "10", "--threads", "1", "--temperature"}
	want := object[answered](t, b.run(append(slices.Clone(ask), "0")...))
	for _, cold := range []string{"1e-45", "1e-38", "1e-37", "1e-7"} {
		if got := object[answered](t, b.run(append(slices.Clone(ask), cold)...)); !slices.Equal(got.Tokens, want.Tokens) {
			t.Errorf("at %s %v, greedy %v", cold, got.Tokens, want.Tokens)
		}
	}
}
