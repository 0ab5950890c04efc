package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"muster/internal/event"
)

// progress writes what happens as plain lines; on a terminal the moving figures
// overwrite one another in place.
type progress struct {
	mu     sync.Mutex
	to     io.Writer
	tty    bool
	moving bool // the cursor is behind a figure that may be overwritten
	began  time.Time
	since  map[string]time.Time // first sight of each moving figure
	told   map[string]int       // last tenth told of it, off a terminal
}

// patience is how long something must last before its progress is shown.
const patience = 700 * time.Millisecond

func newProgress(to io.Writer) *progress {
	f, isFile := to.(*os.File)
	return &progress{
		to: to, tty: isFile && term.IsTerminal(int(f.Fd())), began: time.Now(),
		since: map[string]time.Time{}, told: map[string]int{},
	}
}

// Tell prints one event of this process.
func (p *progress) Tell(e event.Event) { p.tellOf("", e) }

// tellOf prints one event of a node, or of this process where node is "".
func (p *progress) tellOf(node string, e event.Event) {
	if node != "" {
		node += ": "
	}
	switch e := e.(type) {
	case event.SliceProgressed:
		p.move(node+e.Slice, float32(e.Done)/float32(max(e.Total, 1)))
	case event.WeightsProgressed:
		p.move(node+e.Worker+" loads its weights", e.Done)
	case event.DownloadProgressed:
		if e.Total > 0 {
			p.move(fmt.Sprintf("%sfetching %s (%s)", node, e.File, bytesText(e.Total)), float32(e.Done)/float32(e.Total))
		} else {
			p.move(fmt.Sprintf("%sfetching %s, %s so far", node, e.File, bytesText(e.Done)), 0)
		}
	case event.ReferenceProgressed:
		p.move(node+"reference", float32(e.Done)/float32(max(e.Total, 1)))
	case event.SliceReady:
		if e.Replaced != nil {
			p.line("%s%s: %s; made again", node, e.Slice, e.Replaced.Error())
		}
		how := "written"
		if e.Cached {
			how = "found in the cache"
		}
		p.line("%s%s: %s, %s", node, e.Slice, bytesText(e.Bytes), how)
	default:
		if text := chainLine(e) + nodeLine(e) + poolLine(e); text != "" { // no event is of two
			p.line("%s%s", node, text)
		}
	}
}

// relay prints a line of an engine.
func (p *progress) relay(of, line string) { p.line("%s: %s", of, line) }

// mute drops what is told from here on.
func (p *progress) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	p.to = io.Discard
}

// chainLine is what an event of workers alone says to people; "" says nothing.
func chainLine(e event.Event) string {
	switch e := e.(type) {
	case event.ModelInspected:
		return fmt.Sprintf("model %s: %s, %d layers, %s", e.Model, e.Architecture, e.Layers, bytesText(e.Bytes))
	case event.WorkerStarted:
		return fmt.Sprintf("%s: process %d, llama.cpp %s on %s", e.Worker, e.PID, e.Engine, e.Device)
	case event.StageLoaded:
		return fmt.Sprintf("%s: layers %d to %d ready, %s resident, %.2f ms a token on %d %s",
			e.Worker, e.Layers[0], e.Layers[1]-1, bytesText(int64(e.ResidentBytes)), float64(e.TokenMicros)/1000, e.Threads, plural(e.Threads, "thread"))
	case event.ChainReady:
		return fmt.Sprintf("%d %s ready after %d ms", e.Workers, plural(e.Workers, "worker"), e.Took.Milliseconds())
	case event.ChainFaulted:
		return "fault: " + e.Fault.Error()
	}
	return ""
}

func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	fmt.Fprintf(p.to, "%6.2fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

// settle clears a moving figure. The caller holds mu.
func (p *progress) settle() {
	if p.moving {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.moving = false
	}
}

func (p *progress) move(what string, done float32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, seen := p.since[what]; !seen {
		p.since[what] = time.Now()
	}
	if time.Since(p.since[what]) < patience {
		return
	}
	percent := int(100 * min(max(done, 0), 1))
	if p.tty {
		fmt.Fprintf(p.to, "\r\x1b[K%6.2fs  %s: %d %%", time.Since(p.began).Seconds(), what, percent)
		p.moving = true
		return
	}
	if tenth := percent / 10; tenth > p.told[what] {
		p.told[what] = tenth
		fmt.Fprintf(p.to, "%6.2fs  %s: %d %%\n", time.Since(p.began).Seconds(), what, percent)
	}
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func bytesText(n int64) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for v >= 1024 && len(units) > 1 {
		v, units = v/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
