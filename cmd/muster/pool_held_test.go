//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// held is what a process has of the machine's.
type held struct {
	children, memfds, descriptors, mapped, threads int
}

// heldBy counts it through /proc.
func heldBy(t *testing.T, pid int) held {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	h := held{children: len(children(t, pid))}
	fds, err := os.ReadDir(proc + "fd")
	must(t, err)
	for _, fd := range fds {
		target, err := os.Readlink(proc + "fd/" + fd.Name())
		if err != nil {
			continue // closed meanwhile
		}
		h.descriptors++
		if strings.HasPrefix(target, "/memfd:") {
			h.memfds++
		}
	}
	maps, err := os.ReadFile(proc + "maps")
	must(t, err)
	h.mapped = strings.Count(string(maps), "/memfd:")
	threads, err := os.ReadDir(proc + "task")
	must(t, err)
	h.threads = len(threads)
	return h
}

// children are the child processes of a process, those that wait to be reaped
// too.
func children(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	var all []int
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(word)
			must(t, err)
			all = append(all, child)
		}
	}
	return all
}

// fewDescriptors is how many more a process may have than before: connections
// of clients and files that are being closed come and go.
const fewDescriptors = 4

// within reports whether a process has what it had before: exactly so of what
// outlives mistakes, processes and memory files.
func (now held) within(before held) bool {
	return now.children == before.children && now.memfds == before.memfds && now.mapped == before.mapped &&
		now.descriptors <= before.descriptors+fewDescriptors
}
