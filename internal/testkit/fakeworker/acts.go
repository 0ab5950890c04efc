package fakeworker

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"

	"muster/internal/fault"
	"muster/internal/wire"
)

// grandchild in place of an act marks the process that Grandchild starts.
const grandchild Act = "be a grandchild"

// misbehave does the act of the knobs. req is the request to be answered, the
// zero value where there is none.
func (f *fake) misbehave(req wire.Request) {
	answer := good(req)
	asked := req.ID != 0
	switch f.Do {
	case Exit:
		os.Exit(f.Number)
	case Signal:
		killSelf(f.Number)
		forever()
	case Crash:
		fmt.Fprintln(os.Stderr, *wild())
	case Panic:
		panic(f.Text)
	case Hang:
		return
	case Deaf:
		forever()
	case Say:
		f.raw(f.Text)
		return
	case SayAndAnswer:
		f.raw(f.Text + "\n")
	case Huge:
		f.raw(string(bytes.Repeat([]byte("x"), f.Number)))
		return
	case Flood:
		for range f.Number {
			fmt.Fprintln(os.Stderr, f.Text)
		}
	case CloseStdout:
		_ = f.out.Close()
		forever()
	case CloseStdin:
		_ = f.in.Close()
		return
	case Advance:
		for i := range f.Number {
			f.say(wire.Reply{ID: req.ID, Progress: &wire.Progress{Done: float32(i+1) / float32(f.Number)}})
		}
	case Twice:
		f.say(answer)
	case Foreign:
		answer.ID = req.ID + 1000
	case LateProgress:
		f.say(answer)
		answer = wire.Reply{ID: req.ID, Progress: &wire.Progress{Done: 1}}
	case Refuse:
		answer = wire.Reply{ID: req.ID, Fault: fault.New(fault.Code(f.Text), "")}
	case Unasked:
		for range f.Number {
			f.say(wire.Reply{Fault: fault.New(fault.Code(f.Text), "")})
		}
	case Grandchild, Escape:
		f.startGrandchild()
	case Behave, grandchild:
	default:
		panic("fakeworker: no act " + string(f.Do))
	}
	if asked {
		f.say(answer)
	}
	if f.ThenExit {
		os.Exit(1)
	}
}

// wild points at nothing.
func wild() *int { return nil }

// raw writes to the protocol what no encoder would.
func (f *fake) raw(text string) {
	if _, err := f.out.WriteString(text); err != nil {
		die(err)
	}
}

// startGrandchild starts a process that keeps this one's stdout and stderr, and
// the lifeline, as whatever a foreign library starts would.
func (f *fake) startGrandchild() {
	exe, err := os.Executable()
	if err != nil {
		die(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), Knobs{Do: grandchild}.Env()...)
	cmd.Stdout, cmd.Stderr = f.out, os.Stderr
	if f.Do == Escape {
		cmd.SysProcAttr = ownSession()
	}
	if err := cmd.Start(); err != nil {
		die(err)
	}
	fmt.Fprintln(os.Stderr, "grandchild", cmd.Process.Pid)
}
