package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Of is the mark of a process that runs.
func Of(pid int) Mark {
	m := Mark{PID: pid, Boot: boot()}
	m.Start, _ = start(pid)
	return m
}

// Alive reports whether the process still runs. One that has ended and was not
// waited for does not.
func (m Mark) Alive() bool {
	if m.PID <= 0 || m.Boot != boot() {
		return false
	}
	at, runs := start(m.PID)
	return runs && at == m.Start
}

// Stopped reports whether a signal has stopped a process.
func Stopped(pid int) bool {
	fields, found := stat(pid)
	return found && fields[state] == "T"
}

// boot is the kernel's id of this boot of the machine.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func start(pid int) (ticks uint64, runs bool) {
	fields, found := stat(pid)
	if !found || fields[state] == "Z" || fields[state] == "X" {
		return 0, false
	}
	ticks, err := strconv.ParseUint(fields[startTime], 10, 64)
	return ticks, err == nil
}

// Fields 3 and 22 of proc_pid_stat(5), counted from the first after the name.
const state, startTime = 0, 19

// stat reads the fields behind the second, which is the program's name and may
// hold anything.
func stat(pid int) (fields []string, found bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, false
	}
	fields = strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	return fields, len(fields) > startTime
}
