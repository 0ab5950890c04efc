package worker

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	tailLines = 40   // lines kept
	tailLine  = 1024 // bytes kept of a line
)

// tail keeps the last lines of stderr.
type tail struct {
	tell func(string)

	mu    sync.Mutex
	lines []string
}

// follow reads to the end of the stream. A line longer than tailLine bytes is
// cut there; its rest is read and dropped.
func (t *tail) follow(r io.Reader) {
	in := bufio.NewReaderSize(r, tailLine)
	inside := false // in the rest of a line that was cut
	for {
		part, err := in.ReadSlice('\n')
		if !inside && len(part) > 0 {
			t.keep(string(bytes.ToValidUTF8(bytes.TrimRight(part, "\r\n"), []byte("?"))))
		}
		inside = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !inside {
			return
		}
	}
}

func (t *tail) keep(line string) {
	t.mu.Lock()
	if len(t.lines) == tailLines {
		copy(t.lines, t.lines[1:])
		t.lines[tailLines-1] = line
	} else {
		t.lines = append(t.lines, line)
	}
	t.mu.Unlock()
	if t.tell != nil {
		t.tell(line)
	}
}

// String is the kept lines, "(none)" where the child said nothing.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 {
		return "(none)"
	}
	return strings.Join(t.lines, "\n")
}
