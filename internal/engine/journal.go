package engine

import (
	"strings"
	"sync"
	"unsafe"
)

// Levels of the library's log, as in ggml_log_level.
const (
	levelWarn     = 3
	levelContinue = 5 // goes on with the line before
)

const (
	wordsKept   = 20      // lines of warning or worse kept for faults
	longestLine = 4 << 10 // bytes; what goes beyond is cut off
)

// journal turns the library's log, which comes in pieces and from any thread,
// into lines, and keeps the last warnings so that a fault can quote them.
type journal struct {
	mu    sync.Mutex
	sink  func(level int, line string) // may be nil
	level int
	line  []byte
	words []string
}

// add takes one piece as ggml gives it.
func (j *journal) add(level int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if level != levelContinue {
		j.end()
		j.level = level
	}
	for text != "" {
		head, rest, ended := strings.Cut(text, "\n")
		if room := longestLine - len(j.line); len(head) > room {
			head = head[:room]
		}
		j.line = append(j.line, head...)
		if ended {
			j.end()
		}
		text = rest
	}
}

// end closes the line in hand. Progress dots and empty lines are dropped.
func (j *journal) end() {
	line := strings.TrimRight(string(j.line), " \r\t")
	j.line = j.line[:0]
	if strings.Trim(line, ".") == "" {
		return
	}
	if j.level >= levelWarn {
		j.words = append(j.words, line)
		if extra := len(j.words) - wordsKept; extra > 0 {
			j.words = append(j.words[:0], j.words[extra:]...)
		}
	}
	if j.sink != nil {
		j.sink(j.level, line)
	}
}

// forget drops the words of earlier calls.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.words = j.words[:0]
}

// said returns the warnings and errors since forget, or a placeholder.
func (j *journal) said() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.end()
	if len(j.words) == 0 {
		return "(none)"
	}
	return strings.Join(j.words, "; ")
}

// cString copies a NUL-terminated string of C, at most longest bytes of it.
func cString(p *byte, longest int) string {
	if p == nil {
		return ""
	}
	n := 0
	for n < longest && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
