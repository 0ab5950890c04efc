//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/demo"
	"muster/internal/testkit"
)

// prompts are the first words of a text, so many of them.
func prompts(counts []int) []string {
	const text = "Once upon a time there was a little fox who lived in a small house by the sea. " +
		"One day she went to the park with her friend and they saw a big dog. "
	words := strings.Fields(strings.Repeat(text, 10))
	var all []string
	for _, n := range counts {
		all = append(all, strings.Join(words[:n], " "))
	}
	return all
}

// drawings are the ways in which tokens are drawn.
var drawings = map[string][]string{
	"greedy":        nil,
	"seed 7 at 0.8": {"--temperature", "0.8", "--seed", "7"},
	"all samplers":  {"--temperature", "0.8", "--seed", "42", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.02", "--repeat-penalty", "1.1"},
}

// recipe is what reference and pool compute by.
var recipe = []string{"--threads", "1", "--chunk", "64"}

const most = "48" // tokens of an answer

// reference has the unsliced model answer all prompts in every way.
func (b *bench) reference(model string, prompts []string) map[string][]answered {
	b.t.Helper()
	all := map[string][]answered{}
	for name, how := range drawings {
		cmd := exec.CommandContext(b.t.Context(), testkit.MusterBinary(b.t),
			slices.Concat([]string{"worker", "reference", "--json", "--model", model, "--max-tokens", most}, recipe, how)...)
		cmd.Dir, cmd.Env, cmd.Stdin = b.dir, b.env, strings.NewReader(strings.Join(prompts, "\n")+"\n")
		out, err := cmd.Output()
		must(b.t, err)
		for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
			var a answered
			must(b.t, dec.Decode(&a))
			all[name] = append(all[name], a)
		}
		if len(all[name]) != len(prompts) {
			b.t.Fatalf("%s: %d answers to %d prompts", name, len(all[name]), len(prompts))
		}
	}
	return all
}

// The tokens of real nodes over real QUIC are those of the unsliced model, on
// any number of nodes.
func TestAPoolAnswersAsTheReference(t *testing.T) {
	stories, err := filepath.Abs(filepath.Join("..", "..", "testdata", "stories260K.gguf"))
	must(t, err)
	for name, m := range map[string]struct {
		model         string
		layers        int
		words, tokens []int // of the prompts; every prompt begins with a token of the model's own
	}{
		"tale":        {demo.Name, 8, []int{1, 6, 54, 269}, []int{2, 7, 60, 300}},
		"stories260K": {stories, 5, []int{1, 6, 41, 195}, []int{2, 7, 60, 302}},
	} {
		t.Run(name, func(t *testing.T) {
			prompts := prompts(m.words)
			want := newBench(t).reference(m.model, prompts)
			lengths(t, want["greedy"], m.tokens)
			for _, n := range []int{1, 2, 3, 5} {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					p := newPool(t, n, append([]string{"--model", m.model}, recipe...)...)
					p.cover(n, m.layers)
					for name, how := range drawings {
						for i, prompt := range prompts {
							got := p.told(prompt, append([]string{"--max-tokens", most}, how...)...)
							if !slices.Equal(got.Tokens, want[name][i].Tokens) || got.Text != want[name][i].Text || got.FinishReason != string(want[name][i].FinishReason) {
								t.Errorf("%s, prompt %d: %d nodes answered %q, the reference %q", name, i, n, got.Text, want[name][i].Text)
							}
						}
					}
					p.leave()
				})
			}
		})
	}
}

// told is an answer. Where the run is lost meanwhile, as a machine under load
// loses one, the next is asked: what is looked at here are the tokens.
func (p *pool) told(prompt string, how ...string) answerOf {
	p.t.Helper()
	for deadline := time.Now().Add(poolWithin); ; p.serving() {
		got := p.run(append([]string{"run", prompt, "--json"}, how...)...)
		lost := strings.Contains(got.stderr, "code: orch.request_refused") || strings.Contains(got.stderr, "code: node.suspected")
		if got.exit == 0 || !lost || time.Now().After(deadline) {
			return object[answerOf](p.t, got)
		}
	}
}

// lengths demands that the prompts are as long as the test wants them, and that
// there is something to compare.
func lengths(t *testing.T, answers []answered, tokens []int) {
	t.Helper()
	for i, a := range answers {
		if a.PromptTokens != tokens[i] || len(a.Tokens) == 0 {
			t.Errorf("prompt %d has %d tokens, its answer %d", i, a.PromptTokens, len(a.Tokens))
		}
	}
}

// cover demands that so many stages hold all layers, once.
func (p *pool) cover(stages, layers int) {
	p.t.Helper()
	s, end := p.serving(), 0
	for _, st := range s.Run.Stages {
		if st.Layers[0] != end || st.Layers[1] <= end {
			p.t.Errorf("stage %+v does not follow on layer %d", st, end)
		}
		end = st.Layers[1]
	}
	if end != layers || len(s.Run.Stages) != stages {
		p.t.Errorf("%d stages hold %d layers", len(s.Run.Stages), end)
	}
}

// leave stops the pool, and every node ends by itself.
func (p *pool) leave() {
	p.t.Helper()
	if got := p.run("stop", "--leave"); got.exit != 0 {
		p.t.Errorf("stop: %s", got.stderr)
	}
	for name, cmd := range p.nodes {
		if err := waitFor(cmd, poolWithin); err != nil {
			p.t.Errorf("%s, told to leave: %v", name, err)
		}
	}
}
