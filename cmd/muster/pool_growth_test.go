//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The growth of a pool is looked for between its fifth run and its last one:
// the fiftieth in make check, which skips nothing, an earlier one else, since a
// run is not formed before the pool has been stable for a while.
const (
	settledRun = 5
	briefRuns  = 15
	allRuns    = 50
)

// journalGrowth is how many bytes an orchestrator's store may take more: the
// events of so many runs, and a log of SQLite that has not been folded in. Both
// have bounds of their own.
const journalGrowth = 8 << 20

// statusGrowth is how much longer a node's status may be written: it has times
// and counts in it.
const statusGrowth = 1 << 10

// reportsGrowth is what the reports of a node's doctor may take, of which 20 are
// kept.
const reportsGrowth = 20 * 4 << 10

// A pool in which one run after the other ends by a loss holds in the end what
// it held in the beginning: processes, memory files, descriptors, threads, disk.
func TestManyRunsLeaveNothingBehind(t *testing.T) {
	p := newPool(t, 2)
	runs := briefRuns
	if os.Getenv("MUSTER_REQUIRE") == "all" {
		runs = allRuns
	}
	first := p.serving()
	s, holds, disk := first, map[string]held(nil), map[string]int64(nil)
	for run := 1; ; run++ {
		p.answers()
		if run == settledRun {
			holds, disk = p.holds(), p.disk()
		}
		if run == runs {
			break
		}
		victim := s.Run.Stages[run%len(s.Run.Stages)].Name
		p.signal(p.worker(victim), syscall.SIGKILL)
		s = p.servingAfter(s.Run.Run)
	}
	sameBoots(t, first, s, "")
	p.holding(holds)
	for name, size := range p.disk() {
		most := disk[name] + statusGrowth + reportsGrowth
		if name == "orchestrator" {
			most += journalGrowth
		}
		if size > most {
			t.Errorf("the folder of %s had %d bytes after run %d and has %d after run %d", name, disk[name], settledRun, size, runs)
		}
	}
	now := p.holds()
	for name, now := range now {
		if was := holds[name]; now.threads > was.threads+fewThreads {
			t.Errorf("%s had %d threads after run %d and has %d after run %d", name, was.threads, settledRun, now.threads, runs)
		}
	}
	t.Logf("after run %d %+v, after run %d %+v; on disk %v and %v", settledRun, holds, runs, now, disk, p.disk())
	p.leave()
}

// fewThreads is how many more threads a process may have: Go's runtime starts
// one for a system call that takes long, and keeps it.
const fewThreads = 6

// disk is the size of each process's folder.
func (p *pool) disk() map[string]int64 {
	p.t.Helper()
	all := map[string]int64{}
	for name := range p.holds() {
		must(p.t, filepath.WalkDir(filepath.Join(p.dir, name), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			all[name] += info.Size()
			return err
		}))
	}
	return all
}
