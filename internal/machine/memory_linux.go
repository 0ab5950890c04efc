package machine

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MeasureMemory reads the kernel's own figures; ok is false where there are none.
func MeasureMemory() (m Memory, ok bool) {
	m, ok = meminfo("/proc/meminfo")
	if limit, used, bounded := controlGroup("/sys/fs/cgroup", "/proc/self/cgroup"); ok && bounded {
		m.Total = min(m.Total, limit)
		m.Available = min(m.Available, limit-min(limit, used))
	}
	return m, ok
}

func meminfo(path string) (Memory, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Memory{}, false
	}
	var m Memory
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		key, rest, _ := strings.Cut(lines.Text(), ":")
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "MemTotal":
			m.Total = kib << 10
		case "MemAvailable":
			m.Available = kib << 10
		}
	}
	return m, m.Total > 0 && m.Available > 0
}

// controlGroup finds the tightest memory limit of this process' groups
// (cgroup v2) and what the group with that limit uses, less what the kernel can
// drop at once.
func controlGroup(root, self string) (limit, used uint64, bounded bool) {
	b, err := os.ReadFile(self)
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(b)) {
		path, v2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !v2 {
			continue
		}
		for dir := filepath.Join(root, path); strings.HasPrefix(dir, root); dir = filepath.Dir(dir) {
			l, lok := number(filepath.Join(dir, "memory.max"))
			u, uok := number(filepath.Join(dir, "memory.current"))
			if lok && uok && (!bounded || l < limit) {
				u -= min(u, reclaimable(filepath.Join(dir, "memory.stat")))
				limit, used, bounded = l, u, true
			}
		}
	}
	return limit, used, bounded
}

func number(path string) (uint64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil // "max" is no number: no limit here
}

func reclaimable(path string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "inactive_file "); ok {
			n, _ := strconv.ParseUint(v, 10, 64)
			return n
		}
	}
	return 0
}
