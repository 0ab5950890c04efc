package child_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"muster/internal/testkit"
	"muster/internal/worker/child"
)

// roleVariable names what a test binary does as a worker process.
const roleVariable = "MUSTER_TEST_CHILD"

// roles are run after child.Hold; out is what was stdout.
var roles = map[string]func(out *os.File){
	"nil dereference": func(*os.File) {
		var p *int
		fmt.Println(*p)
	},
	"a map cut short": func(*os.File) { touchCutMap() },
	"preempted":       func(out *os.File) { _, _ = fmt.Fprintf(out, "counted %t\n", preempts()) },
	"printing": func(out *os.File) {
		fmt.Println("a library's words")
		_, _ = unix.Write(1, []byte("more of them\n"))
		_, _ = fmt.Fprintln(out, "a reply")
	},
	"waiting": func(out *os.File) {
		_, _ = fmt.Fprintln(out, "here")
		select {}
	},
	"limits": func(out *os.File) {
		var core unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_CORE, &core)
		_, _ = fmt.Fprintln(out, "core", core.Cur)
	},
}

func TestMain(m *testing.M) {
	if role, asked := os.LookupEnv(roleVariable); asked {
		_, out, err := child.Hold()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(99)
		}
		roles[role](out)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// touchCutMap reads a page of a mapped file that has been truncated.
func touchCutMap() {
	fd, err := unix.MemfdCreate("cut", 0)
	if err != nil {
		panic(err)
	}
	_ = unix.Ftruncate(fd, 1<<16)
	b, err := unix.Mmap(fd, 0, 1<<16, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	_ = unix.Ftruncate(fd, 0)
	fmt.Println(b[1<<15])
}

// preempts reports whether a goroutine gets its turn beside one that never
// yields, which needs the runtime's SIGURG.
func preempts() bool {
	runtime.GOMAXPROCS(1)
	turn := make(chan struct{})
	go func() {
		for i := 0; ; i++ {
			if i < 0 {
				return
			}
		}
	}()
	go close(turn)
	select {
	case <-turn:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// process is a worker process in one of the roles, with its lifeline.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
	lifeline *os.File // the daemon's end
	theirs   *os.File // the child's, which the test holds too
}

// begin starts a program as a daemon would, but for the signals that package
// worker arms.
func begin(t *testing.T, path, role string) *process {
	t.Helper()
	testkit.Leaks(t)
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(path), lifeline: ours, theirs: theirs}
	p.Env = append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.out, &p.err
	p.ExtraFiles = []*os.File{theirs}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		_, _ = ours.Close(), theirs.Close()
	})
	return p
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// endsBy waits for the process and reports the signal that ended it.
func (p *process) endsBy(t *testing.T) string {
	t.Helper()
	_ = p.Wait()
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		t.Fatalf("exited with status %d; stderr: %s", status.ExitStatus(), p.err.String())
	}
	return unix.SignalName(status.Signal())
}

func TestACrashShowsAsItsSignal(t *testing.T) {
	for role, want := range map[string]string{"nil dereference": "SIGSEGV", "a map cut short": "SIGBUS"} {
		if got := begin(t, self(t), role).endsBy(t); got != want {
			t.Errorf("%s ended by %s, want %s", role, got, want)
		}
	}
}

func TestASignalFromOutsideEndsUnderItsName(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT} {
		p := begin(t, self(t), "waiting")
		awaitHeld(t, p)
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := p.endsBy(t); got != unix.SignalName(sig) {
			t.Errorf("kill -%s ended it by %s", unix.SignalName(sig), got)
		}
	}
}

// awaitHeld waits until the process has done its part, which shows in its
// stdout being stderr's.
func awaitHeld(t *testing.T, p *process) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		out, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", p.Process.Pid))
		err, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", p.Process.Pid))
		if out != "" && out == err {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the process does not hold itself")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAnAbortInALibraryShowsAsItsSignal(t *testing.T) {
	testkit.Need(t, testkit.CC)
	path := filepath.Join(t.TempDir(), "abort")
	build := exec.Command("go", "build", "-o", path, "./testdata/abort")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := begin(t, path, "")
	if got := p.endsBy(t); got != "SIGABRT" {
		t.Errorf("ended by %s", got)
	}
	if p.out.Len() > 0 || !strings.Contains(p.err.String(), "printed by a library") {
		t.Errorf("stdout %q, stderr %q", p.out.String(), p.err.String())
	}
}

func TestGoroutinesAreStillPreempted(t *testing.T) {
	p := begin(t, self(t), "preempted")
	if err := p.Wait(); err != nil || p.out.String() != "counted true\n" {
		t.Errorf("said %q, %v", p.out.String(), err)
	}
}

func TestStdoutIsForTheProtocolAlone(t *testing.T) {
	p := begin(t, self(t), "printing")
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if p.out.String() != "a reply\n" || p.err.String() != "a library's words\nmore of them\n" {
		t.Errorf("stdout %q, stderr %q", p.out.String(), p.err.String())
	}
}

func TestNoCoreFileIsWritten(t *testing.T) {
	p := begin(t, self(t), "limits")
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := p.out.String(); got != "core 0\n" && got != "core 1\n" {
		t.Errorf("the limit is %q", got)
	}
}

func TestTheEndOfTheLifelineEndsTheProcess(t *testing.T) {
	p := begin(t, self(t), "waiting")
	awaitHeld(t, p)
	_ = p.lifeline.Close()
	if got := p.endsBy(t); got != "SIGKILL" {
		t.Errorf("ended by %s", got)
	}
}

func TestALifelineThatEndedBeforeTheStartEndsTheProcess(t *testing.T) {
	p := begin(t, self(t), "waiting")
	_ = p.lifeline.Close() // before its main or after: both must end it
	if got := p.endsBy(t); got != "SIGKILL" {
		t.Errorf("ended by %s", got)
	}
}

// The lifeline's open file is shared with the parent. One that makes it
// blocking over and over, as File.Fd does, holds no child up at its start.
func TestABlockingLifelineHoldsNothingUp(t *testing.T) {
	for range 20 {
		p := begin(t, self(t), "waiting")
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-over:
					return
				default:
					p.theirs.Fd()
				}
			}
		}()
		awaitHeld(t, p)
		close(over)
		<-ended
	}
}

func TestAStartByHandIsRefused(t *testing.T) {
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), roleVariable+"=waiting")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 99 || !strings.Contains(string(out), "muster starts this program by itself") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestADescriptorThatWasNotPassedIsNamed(t *testing.T) {
	if _, err := child.Descriptor(999, "arena"); err == nil || !strings.Contains(err.Error(), "arena was not passed") {
		t.Errorf("got %v", err)
	}
}
