package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"muster/internal/fault"
)

// onForeignThread runs f on a thread that the Go runtime has not made.
func onForeignThread(t *testing.T, f func()) {
	t.Helper()
	create, err1 := purego.Dlsym(purego.RTLD_DEFAULT, "pthread_create")
	join, err2 := purego.Dlsym(purego.RTLD_DEFAULT, "pthread_join")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	start := purego.NewCallback(func(uintptr) uintptr { f(); return 0 })
	thread := new(uintptr)
	if status, _, _ := purego.SyscallN(create, uintptr(unsafe.Pointer(thread)), 0, start, 0); int32(status) != 0 {
		t.Fatalf("pthread_create gave %d", int32(status))
	}
	purego.SyscallN(join, *thread, 0)
}

// The log's callback and both evaluation filters work on threads of C.
func TestCallbacksOnForeignThreads(t *testing.T) {
	c, rows := firstStage(t, 8)
	slow := openContext(t, c.model, ContextParams{Role: Middle, goFilter: true})
	var errs [3]error
	onForeignThread(t, func() {
		_, errs[0] = library(t).OpenModel("/dev/null", ModelParams{})
		errs[1] = c.DecodeRows(run(0, 0, 8, false), rows)
		errs[2] = slow.DecodeRows(run(0, 0, 8, false), rows)
	})
	if f := wantFault(t, "load", errs[0], fault.StageLoadFailed); f.Attr("log") == "(none)" {
		t.Error("no words of the log")
	}
	if err := errors.Join(errs[1:]...); err != nil {
		t.Fatal(err)
	}
	sameBits(t, "rows", c.Rows(), slow.Rows())
}

// Several contexts of one model compute at once while the collector runs without a
// pause and stacks move; none disturbs another.
func TestContextsAtOnceUnderTheCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	p := cut(t, stories, 3)
	ids := tokens(512, 30, 1)
	want := all(t, openChain(t, p, false), run(0, 0, 30, true), ids)
	chains := make([]*chain, 4)
	for i := range chains {
		chains[i] = openChain(t, p, i%2 == 1)
	}
	var wg sync.WaitGroup
	for i, c := range chains {
		wg.Go(func() {
			for round := range 5 {
				grow(1000)
				if err := errors.Join(c.trim(0, 0), c.decode(run(0, 0, 30, true), ids)); err != nil {
					t.Error(err)
					return
				}
				for k := range want {
					l, err := c.logits(k)
					if err != nil || fmt.Sprint(l) != fmt.Sprint(want[k]) {
						t.Errorf("chain %d, round %d, row %d differs: %v", i, round, k, err)
						return
					}
				}
				runtime.GC()
			}
		})
	}
	wg.Wait()
}

// grow uses so much stack that the runtime moves it.
func grow(n int) int {
	var space [64]int
	if n == 0 {
		return space[0]
	}
	space[n%64] = n
	return grow(n-1) + space[(n+1)%64]
}

// The profiler's signals find the filter on stacks of C.
func TestFilterUnderTheProfiler(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Skip(err) // the tests are being profiled
	}
	defer pprof.StopCPUProfile()
	c, rows := firstStage(t, 1)
	for range 500 {
		if err := errors.Join(c.DecodeRows(run(0, 0, 1, false), rows), c.Trim(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// Contexts give threads and memory of C back when they are closed.
func TestClosedContextsLeaveNothing(t *testing.T) {
	m := openModel(t, stories)
	r := recipe()
	r.Context, r.Threads = 1<<15, 4 // 21 MB of KV cache, 3 threads; none computes, which could take long
	open := func() { openContext(t, m, ContextParams{Recipe: r, Role: Whole}).Close() }
	open()
	memory, err := addressSpace()
	if err != nil {
		t.Fatal(err)
	}
	threads := len(taskNames(t))
	const times = 8
	for range times {
		open()
	}
	after, err := addressSpace()
	if err != nil {
		t.Fatal(err)
	}
	if grown := len(taskNames(t)) - threads; grown > times {
		t.Errorf("%d contexts left %d threads", times, grown)
	}
	if grown := int64(after - memory); grown > times*10<<20 {
		t.Errorf("%d contexts left %d MB mapped", times, grown>>20)
	}
}

func taskNames(t testing.TB) []os.DirEntry {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

var _ = child("context", childContext)

// childContext asks for a context that the address space has no room for.
func childContext(args []string) error {
	l, err := Load(args[0], nil)
	if err != nil {
		return err
	}
	m, err := l.OpenModel(args[1], ModelParams{})
	if err != nil {
		return err
	}
	context, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if args[3] == "limited" { // to some 300 MB beyond what is mapped now
		mapped, err := addressSpace()
		if err != nil {
			return err
		}
		limit := mapped + 300<<20
		if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	r := recipe()
	r.Context = context
	c, err := m.NewContext(ContextParams{Recipe: r, Role: Whole})
	if err != nil {
		small, again := m.NewContext(ContextParams{Recipe: recipe(), Role: Whole})
		if again != nil {
			return errors.Join(errors.New("no small context after a large one"), again)
		}
		if again := small.DecodeTokens(run(0, 0, 2, false), []int32{1, 2}); again != nil {
			return errors.Join(errors.New("no decode after a refused context"), again)
		}
		return err
	}
	c.Close()
	fmt.Println("opened")
	return nil
}

// addressSpace is what this process has mapped, in bytes.
func addressSpace() (uint64, error) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(data))[0], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

func TestContextBeyondMemoryIsAFault(t *testing.T) {
	dir := library(t).dir
	for _, c := range []struct {
		context int
		limit   string
		code    fault.Code
	}{
		{1<<31 - 1, "free", fault.RecipeContextTooLarge},
		{1 << 21, "limited", fault.StageContextRefused},
	} {
		f, out, err := inChild(t, "context", dir, stories, strconv.Itoa(c.context), c.limit)
		if f == nil || f.Code != c.code || strings.Contains(f.Error()+f.Hint(), "{") {
			t.Errorf("%d tokens, memory %s: %v %v\n%s", c.context, c.limit, f, err, out)
		}
	}
}
