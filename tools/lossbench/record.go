//go:build linux

package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// record is what was measured.
type record struct {
	s       *settings
	began   time.Time
	load    string // of the machine, before anything was started
	trials  []*trial
	early   []*trial // made again, since a fault came before their loss
	watches []*watch
}

func newRecord(s *settings) *record {
	load, _, _ := strings.Cut(read("/proc/loadavg"), " ")
	return &record{s: s, began: time.Now().UTC(), load: load}
}

func (r *record) add(t *trial) { r.trials = append(r.trials, t) }

func (r *record) any() bool { return len(r.trials)+len(r.watches) > 0 }

func (r *record) subject() string {
	if r.s.quiet > 0 {
		return "quiet"
	}
	return "loss"
}

// text is the record as a page; broken is why it was not finished, nil where it was.
func (r *record) text(broken error) string {
	var b strings.Builder
	title := "Loss: to the typed error at the client, and to the next token"
	if r.s.quiet > 0 {
		title = "False faults of pools that lose nothing"
	}
	fmt.Fprintf(&b, "# %s\n\n%s, %s, %d processors, %s/%s, %s, revision %s. Profile `local`, built-in model, threads a stage: %d. "+
		"Load of the machine before: %s.\n", title, r.began.Format("2006-01-02"), processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		runtime.Version(), r.s.revision, r.s.threads, r.load)
	for _, line := range r.s.skipped {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", line)
	}
	if broken != nil {
		fmt.Fprintf(&b, "\nNot finished: %s.\n", strings.ReplaceAll(broken.Error(), "\n", "; "))
	}
	if r.s.quiet > 0 {
		r.watched(&b)
		return b.String()
	}
	fmt.Fprintf(&b, "\nAn answer is being streamed when the loss comes; first, middle and last stage are lost in turn. Times are from just before "+
		"the loss to the fault at the client, and from the return of what was lost to the next token (worker-kill: from the kill, since "+
		"the node starts another worker by itself). A trial has failed where the fault names another node or none, has no type, or where no token follows.\n")
	r.times(&b)
	r.faults(&b)
	listed(&b, "False faults before a loss, whose trials were made again", r.early, func(t *trial) []string { return t.wrong })
	listed(&b, "Faults after the first, before the next token", r.trials, func(t *trial) []string { return t.again })
	listed(&b, "Failed", r.trials, func(t *trial) []string { return t.wrong })
	r.raw(&b)
	return b.String()
}

// group is the trials of one kind and size.
type group struct {
	kind   kind
	nodes  int
	trials []*trial
}

func (r *record) groups() []group {
	var all []group
	for _, t := range r.trials {
		i := slices.IndexFunc(all, func(g group) bool { return g.kind == t.kind && g.nodes == t.nodes })
		if i < 0 {
			i = len(all)
			all = append(all, group{kind: t.kind, nodes: t.nodes})
		}
		all[i].trials = append(all[i].trials, t)
	}
	return all
}

func (r *record) times(b *strings.Builder) {
	fmt.Fprintf(b, "\n| lost | nodes | trials | failed | to the error, ms: median | p90 | largest | aim | met | to the next token, ms: median | p90 | largest | from |\n")
	fmt.Fprintf(b, "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		var errs, tokens []time.Duration
		failed := 0
		for _, t := range g.trials {
			if t.code != "" {
				errs = append(errs, t.toError)
			}
			if t.served {
				tokens = append(tokens, t.toToken)
			}
			if len(t.wrong) > 0 {
				failed++
			}
		}
		met := "yes"
		if failed > 0 || len(errs) == 0 || slices.Max(errs) > g.kind.aim {
			met = "no"
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %s | %s | %s | %s | %s |\n", g.kind.name, g.nodes, len(g.trials), failed,
			spread(errs), millis(g.kind.aim), met, spread(tokens), g.kind.from)
	}
}

// faults tells what the clients were told.
func (r *record) faults(b *strings.Builder) {
	fmt.Fprintf(b, "\n| lost | nodes | fault | it names | count |\n|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		counts := map[[2]string]int{}
		for _, t := range g.trials {
			names := "nobody"
			switch t.blamed {
			case "":
			case t.victim:
				names = "the lost node"
			default:
				names = "another node"
			}
			counts[[2]string{orNone(string(t.code)), names}]++
		}
		for _, key := range sorted(counts, func(k [2]string) string { return k[0] + k[1] }) {
			fmt.Fprintf(b, "| %s | %d | `%s` | %s | %d |\n", g.kind.name, g.nodes, key[0], key[1], counts[key])
		}
	}
}

// listed lists the trials of which there is something to say.
func listed(b *strings.Builder, what string, trials []*trial, say func(*trial) []string) {
	head := "\n" + what + ":\n\n"
	for _, t := range trials {
		if words := say(t); len(words) > 0 {
			fmt.Fprintf(b, "%s- %s, %d nodes, trial %d, %s lost: %s\n", head, t.kind.name, t.nodes, t.number, t.victim, strings.Join(words, "; "))
			head = ""
		}
	}
}

func (r *record) raw(b *strings.Builder) {
	fmt.Fprintf(b, "\nEvery trial:\n\n```csv\nlost,nodes,trial,node,stage,error_ms,token_ms,fault,names,on_the_way,failed\n")
	for _, t := range r.trials {
		fmt.Fprintf(b, "%s,%d,%d,%s,%d,%s,%s,%s,%s,%s,%t\n", t.kind.name, t.nodes, t.number, t.victim, t.stage,
			millis(t.toError), millis(t.toToken), t.code, t.blamed, strings.Join(t.again, "; "), len(t.wrong) > 0)
	}
	fmt.Fprintf(b, "```\n")
}

func (r *record) watched(b *strings.Builder) {
	fmt.Fprintf(b, "\n| nodes | load | for | answers | tokens | runs faulted | suspicions | other faults |\n|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.watches {
		fmt.Fprintf(b, "| %d | %s | %v | %d | %d | %d | %d | %d |\n", w.nodes, w.load, w.lasted, w.answers, w.tokens, w.faulted, w.suspect, w.other)
	}
	head := "\nWhat was told:\n\n"
	for _, w := range r.watches {
		for _, name := range sorted(w.counts, func(s string) string { return s }) {
			fmt.Fprintf(b, "%s- %d nodes, %s: %s, %d times\n", head, w.nodes, w.load, name, w.counts[name])
			head = ""
		}
	}
}

func sorted[K comparable](counts map[K]int, by func(K) string) []K {
	return slices.SortedFunc(maps.Keys(counts), func(a, b K) int { return strings.Compare(by(a), by(b)) })
}

// spread is median, 90th percentile and largest as cells of a row.
func spread(v []time.Duration) string {
	if len(v) == 0 {
		return "- | - | -"
	}
	s := slices.Sorted(slices.Values(v))
	return millis((s[(len(s)-1)/2]+s[len(s)/2])/2) + " | " + millis(s[(len(s)*9+9)/10-1]) + " | " + millis(s[len(s)-1])
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

func processor() string {
	for lines := bufio.NewScanner(strings.NewReader(read("/proc/cpuinfo"))); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}

// read is a file's text, "" where it cannot be read.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
