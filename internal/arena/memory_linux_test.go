package arena

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/fault"
)

// remains lists what this process holds of arenas: descriptors and maps.
func remains(t *testing.T) []string {
	t.Helper()
	var found []string
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, fileName) {
			found = append(found, fd+" -> "+to)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(maps)) {
		if strings.Contains(l, fileName) {
			found = append(found, l)
		}
	}
	return found
}

func TestACreatedArenaIsWholeAndLeavesNothing(t *testing.T) {
	before := len(remains(t))
	for _, size := range []int64{1, grain, 2 * grain, 3*grain + 1, 1 << 20} {
		a, err := Create(size)
		if err != nil {
			t.Fatal(err)
		}
		info, err := a.File().Stat()
		if err != nil || info.Size() != a.Size() || a.Size() < size || a.Size()%grain != 0 {
			t.Errorf("asked for %d: Size is %d, the file has %d, %v", size, a.Size(), info.Size(), err)
		}
		if len(remains(t)) == before {
			t.Error("the check finds nothing of a live arena")
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := remains(t); len(after) != before {
		t.Errorf("left behind: %v", after)
	}
}

func TestSizesThatCannotBeAreRefused(t *testing.T) {
	before := len(remains(t))
	for _, size := range []int64{0, -1, -1 << 63, 1<<63 - 1} {
		_, err := Create(size)
		wantFault(t, err, fault.ArenaCreateRefused)
	}
	if after := remains(t); len(after) != before {
		t.Errorf("left behind: %v", after)
	}
}

// A file that shrank would kill every process that touches it.
func TestNobodyCanResizeTheFile(t *testing.T) {
	a := newArena(t, 1<<16)
	for _, size := range []int64{0, a.Size() - grain, a.Size() + grain} {
		if err := a.File().Truncate(size); err == nil {
			t.Errorf("resized to %d", size)
		}
	}
}

func TestMapRefusesAnotherFile(t *testing.T) {
	a := newArena(t, 1<<16)
	head := overlay[fileHeader](a.memory, 0)
	refused := func(what string, size int64) {
		t.Helper()
		f := duplicate(t, a.File())
		defer f.Close()
		b, err := Map(f, size)
		if err == nil {
			b.Close()
		}
		if fault.From(err) == nil || fault.From(err).Code != fault.ArenaFileMismatch {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, size := range []int64{0, -1, 1, a.Size() - grain, a.Size() + grain, 1<<63 - 1} {
		refused("another size", size)
	}
	head.magic.Add(1)
	refused("another magic", a.Size())
	head.magic.Store(arenaMagic)
	head.version.Add(1)
	refused("another version", a.Size())
	head.version.Store(arenaVersion)
	head.size.Add(grain)
	refused("another size in the header", a.Size())
	head.size.Store(uint64(a.Size()))
	if b, err := Map(duplicate(t, a.File()), a.Size()); err != nil {
		t.Error(err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// Memory is taken when it is leased and given back at release, so that a ring
// never fails at a touch and an idle arena costs nothing.
func TestMemoryComesAndGoesWithLeases(t *testing.T) {
	a := newArena(t, 64<<20)
	taken := func() int64 {
		var st unix.Stat_t
		if err := unix.Fstat(int(a.File().Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	idle := taken()
	if idle > 1<<20 {
		t.Errorf("an idle arena takes %d bytes", idle)
	}
	l, err := a.Lease(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if got := taken() - idle; got < 16<<20 {
		t.Errorf("a lease of 16 MiB took %d bytes", got)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if got := taken(); got > idle {
		t.Errorf("%d bytes are kept after the release", got-idle)
	}
}

// limited lowers a limit of this process for one call of f.
func limited(t *testing.T, resource int, to uint64, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(resource, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(to, old.Max), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(resource, &old); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

func TestLimitsOfTheProcessAreFaults(t *testing.T) {
	before := len(remains(t))
	for name, c := range map[string]struct {
		resource int
		to       uint64
		size     int64
		code     fault.Code
	}{
		"file size":     {unix.RLIMIT_FSIZE, 1 << 20, 1 << 21, fault.ArenaCreateRefused},
		"descriptors":   {unix.RLIMIT_NOFILE, 3, 1 << 20, fault.ArenaCreateRefused},
		"address space": {unix.RLIMIT_AS, mappedNow(t) + 1<<30, 1 << 40, fault.ArenaMapRefused},
	} {
		var a *Arena
		var err error
		limited(t, c.resource, c.to, func() { a, err = Create(c.size) })
		if err == nil {
			a.Close()
		}
		if fault.From(err) == nil || fault.From(err).Code != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	limited(t, unix.RLIMIT_NOFILE, 3, func() {
		_, _, err := Doorbell()
		wantFault(t, err, fault.ArenaBellRefused)
	})
	if after := remains(t); len(after) != before {
		t.Errorf("left behind: %v", after)
	}
}

// mappedNow is the size of this process' address space in bytes.
func mappedNow(t *testing.T) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(b))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

func TestShortMemoryIsToldFromRefusal(t *testing.T) {
	wantFault(t, sizeRefused(1, unix.ENOSPC), fault.ArenaSpaceShort)
	wantFault(t, sizeRefused(1, os.NewSyscallError("fallocate", unix.ENOMEM)), fault.ArenaSpaceShort)
	wantFault(t, sizeRefused(1, unix.EFBIG), fault.ArenaCreateRefused)
}
