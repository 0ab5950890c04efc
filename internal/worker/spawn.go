package worker

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"muster/internal/fault"
)

// pipes are the daemon's ends of what ties it to a child.
type pipes struct {
	stdin, stdout, stderr *os.File
	lifeline              *os.File // held open, never written
	theirs                []*os.File
}

// openPipes makes all four. theirs are the child's ends in the order of its
// descriptors 0 to 3.
func openPipes() (*pipes, error) {
	p := &pipes{theirs: make([]*os.File, 4)}
	for i, ours := range []**os.File{&p.stdin, &p.stdout, &p.stderr, &p.lifeline} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, err
		}
		if i == 0 || i == 3 {
			p.theirs[i], *ours = r, w
		} else {
			p.theirs[i], *ours = w, r
		}
	}
	return p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.theirs...) }

func (p *pipes) closeOurs() { closeAll(p.stdin, p.stdout, p.stderr, p.lifeline) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// spawn starts the process and its three goroutines.
func spawn(s Spec) (*Worker, error) {
	if !supported {
		return nil, unsupported(s.Name)
	}
	switch info, err := os.Stat(s.Binary); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.WorkerBinaryMissing, s.Name, "path", s.Binary)
	case err != nil:
		return nil, fault.New(fault.WorkerSpawnFailed, s.Name).Because(err)
	case info.IsDir():
		return nil, fault.New(fault.WorkerBinaryMissing, s.Name, "path", s.Binary)
	}
	p, err := openPipes()
	if err != nil {
		return nil, fault.New(fault.WorkerSpawnFailed, s.Name).Because(err)
	}
	w := &Worker{
		spec:   s,
		pipes:  p,
		pen:    make(chan struct{}, 1),
		faults: make(chan *fault.Fault, faultsHeld),
		ended:  make(chan struct{}),
		done:   make(chan struct{}),
	}
	w.tail.tell = s.Log
	born := make(chan error)
	go onOwnThread(func() { w.keep(born) })
	if err := <-born; err != nil {
		return nil, spawnFault(s, err)
	}
	return w, nil
}

// spawnFault tells a program that cannot be found from one whose loader cannot:
// the kernel says the same of both.
func spawnFault(s Spec, err error) *fault.Fault {
	if errors.Is(err, syscall.ENOENT) {
		return fault.New(fault.WorkerLibraryMissing, s.Name, "library", "of the C runtime (the program's loader)", "package", "libc6").Because(err)
	}
	for _, unusable := range []error{syscall.EACCES, syscall.ENOEXEC, syscall.EPERM} {
		if errors.Is(err, unusable) {
			return fault.New(fault.WorkerBinaryRefused, s.Name, "path", s.Binary).Because(err)
		}
	}
	return fault.New(fault.WorkerSpawnFailed, s.Name).Because(err)
}

// environment is the daemon's, then what the Spec adds, then what the contract
// fixes: an aborting engine must not attach a debugger, and the loader's words
// must be untranslated. Of equal keys the last stands.
func environment(extra []string) []string {
	env := slices.Concat(os.Environ(), extra, []string{"GGML_NO_BACKTRACE=1", "LC_ALL=C"})
	at := make(map[string]int, len(env))
	kept := env[:0]
	for _, kv := range env {
		key, _, _ := strings.Cut(kv, "=")
		if i, seen := at[key]; seen {
			kept[i] = kv
			continue
		}
		at[key] = len(kept)
		kept = append(kept, kv)
	}
	return kept
}
