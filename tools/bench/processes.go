package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ on every Linux.
const ticksPerSecond = 100

// Fields of /proc/PID/stat, counted from the one after the program's name.
const (
	statParent  = 1
	statUser    = 11 // ticks
	statSystem  = 12 // ticks
	statStarted = 19 // ticks since the system's boot
)

// stat reads numbers of a process; ok is false where it cannot be read.
func stat(pid int, fields ...int) (numbers []int64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, false
	}
	return statFields(string(b), fields...)
}

// statFields picks from a stat's line. The program's name in it may hold
// anything but is the last to end with a bracket.
func statFields(line string, fields ...int) (numbers []int64, ok bool) {
	all := strings.Fields(line[strings.LastIndex(line, ")")+1:])
	for _, i := range fields {
		if i >= len(all) {
			return nil, false
		}
		n, err := strconv.ParseInt(all[i], 10, 64)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}

// processorTime is what the processes have used of processors so far; those
// that cannot be read count nothing.
func processorTime(pids []int) time.Duration {
	var ticks int64
	for _, pid := range pids {
		if n, ok := stat(pid, statUser, statSystem); ok {
			ticks += n[0] + n[1]
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

func parentOf(pid int) (int, bool) {
	n, ok := stat(pid, statParent)
	if !ok {
		return 0, false
	}
	return int(n[0]), true
}

// startedAfterBoot is when a process started, since the system's boot, at most
// a tick before it did.
func startedAfterBoot(pid int) (time.Duration, bool) {
	n, ok := stat(pid, statStarted)
	if !ok {
		return 0, false
	}
	return time.Duration(n[0]) * time.Second / ticksPerSecond, true
}

// resident is a process's memory in bytes.
func resident(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d holds %q", pid, b)
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}
