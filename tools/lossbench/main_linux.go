// Command lossbench measures what a loss costs: the time from a loss that it
// brings about itself to the typed error at a client that was being answered,
// and on to the next token once the lost thing is back. It forms pools of real
// programs, and writes a table with every raw value to bench/records.
//
//	node-kill    SIGKILL of a node; it is started again after the error
//	worker-kill  SIGKILL of a node's worker; the node starts another by itself
//	node-stop    SIGSTOP of a node; SIGCONT after the error
//	link-cut     the cable of a node is pulled, and put in again after the error
//
// A fault that names another node than the lost one is a failed trial, as is an
// answer that ends without a typed fault or not at all.
//
// With -quiet it brings about no loss and counts false faults: of a pool that
// idles, and of one that answers without a pause.
//
// Nodes on links of their own need root: the program then runs in a network
// namespace that ends with it, so that nothing is left even where it is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	trials   int
	kinds    []kind
	sizes    []int
	threads  int
	quiet    time.Duration
	burn     bool
	binary   string
	records  string
	revision string
	keep     bool
	skipped  []string // what was asked for and cannot be done here
}

// The main thread keeps the network that the program began in: processes on
// links of their own are started from other threads.
func init() { runtime.LockOSThread() }

func main() {
	s, err := parse(os.Args[1:])
	if err == nil && len(os.Args) == 2 && os.Args[1] == spin {
		spinUntilKilled()
	}
	if err == nil {
		err = dispatch(s)
	}
	var inner *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case !errors.As(err, &inner): // else it has said why
		fmt.Fprintln(os.Stderr, "lossbench:", err)
	}
	os.Exit(1)
}

// dispatch runs here, or in a network of its own where links are to be cut.
func dispatch(s *settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.quiet > 0 || !slices.Contains(s.kinds, linkCut) {
		return run(ctx, s)
	}
	if os.Getenv(insideVariable) != "" {
		if err := loopbackUp(ctx); err != nil {
			return err
		}
		return run(ctx, s)
	}
	if why := noLinks(); why != "" {
		line := linkCut.name + " is skipped: " + why
		fmt.Println(line)
		s.skipped = append(s.skipped, line)
		s.kinds = slices.DeleteFunc(s.kinds, func(k kind) bool { return k == linkCut })
		return run(ctx, s)
	}
	return inNetworkOfItsOwn(ctx)
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("lossbench", flag.ContinueOnError)
	f.IntVar(&s.trials, "trials", 30, "trials a kind and size")
	kinds := f.String("kinds", strings.Join(kindNames(), ","), "kinds of loss")
	sizes := f.String("sizes", "3,5", "nodes of a pool")
	f.IntVar(&s.threads, "threads", 0, "compute threads a stage (default 1, with -quiet all processors)")
	f.DurationVar(&s.quiet, "quiet", 0, "count false faults instead, for so long idle and for so long loaded")
	f.BoolVar(&s.burn, "burn", false, "with -quiet: a busy loop a processor beside the loaded pool")
	f.StringVar(&s.binary, "muster", "bin/muster", "the program; muster-worker lies beside it")
	f.StringVar(&s.records, "records", "bench/records", "folder of the records")
	f.StringVar(&s.revision, "revision", "unknown", "what is measured")
	f.BoolVar(&s.keep, "keep", false, "keep the folders of the pools with their logs")
	spinning := f.Bool(strings.TrimPrefix(spin, "-"), false, "only use up a processor (what -burn starts)")
	if err := f.Parse(args); err != nil || *spinning {
		return s, err
	}
	for _, name := range strings.Split(*kinds, ",") {
		k, err := parseKind(name)
		if err != nil {
			return nil, err
		}
		s.kinds = append(s.kinds, k)
	}
	for _, word := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > mostNodes {
			return nil, fmt.Errorf("-sizes %s: %q is no number of nodes from 1 to %d", *sizes, word, mostNodes)
		}
		s.sizes = append(s.sizes, n)
	}
	switch {
	case s.threads == 0 && s.quiet > 0:
		s.threads = runtime.NumCPU()
	case s.threads == 0:
		s.threads = 1
	}
	if s.trials < 1 || s.threads < 0 || f.NArg() > 0 {
		return nil, fmt.Errorf("give at least one trial, no negative threads, and nothing but flags")
	}
	return s, nil
}

// mostNodes is what the links' addresses and the model's layers allow.
const mostNodes = 8

func run(ctx context.Context, s *settings) error {
	var err error
	if s.binary, err = filepath.Abs(s.binary); err != nil {
		return err
	}
	if _, err := exec.LookPath(s.binary); err != nil {
		return fmt.Errorf("%w: run make engine build", err)
	}
	r := newRecord(s)
	if s.quiet > 0 {
		err = watchAll(ctx, s, r)
	} else {
		err = tryAll(ctx, s, r)
	}
	switch {
	case ctx.Err() != nil && !r.any():
		return errors.New("interrupted")
	case err != nil && !r.any():
		return err
	}
	text := r.text(err)
	fmt.Print("\n", text)
	if err := os.MkdirAll(s.records, 0o755); err != nil {
		return err
	}
	path := filepath.Join(s.records, r.began.Format("2006-01-02-1504")+"-"+r.subject()+".md")
	if ctx.Err() != nil {
		return errors.Join(err, fmt.Errorf("interrupted, so %s is not written", path))
	}
	return errors.Join(err, os.WriteFile(path, []byte(text), 0o644))
}

// pause waits; it is false where ctx has ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
