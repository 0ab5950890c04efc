package arena

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"muster/internal/fault"
)

// component stands in every fault of this package.
const component = "arena"

// sizeMax is more than any address space holds, and can still be rounded up.
const sizeMax = 1 << 48

// Arena is one memory file mapped by this process. Its owner made it and leases
// rings in it; others have it mapped and attach to rings whose places they were
// told. Safe for use by several goroutines.
type Arena struct {
	file   *os.File
	size   int64
	owner  bool
	mu     sync.Mutex
	memory []byte // nil once closed
	ends   map[*end]struct{}
	leases []*Lease // live ones, by rising offset; owner only
	last   uint64   // id of the newest ring; owner only
}

// Create makes a memory file of size bytes, rounded up to whole pages, and maps
// it: memory without a name on Linux, an unlinked temporary file elsewhere, so
// that nothing is left of it whatever becomes of its processes. First and last
// page are proven by writing and reading them. Ranges take memory when they are
// leased. Faults: arena.create_refused, arena.space_exhausted,
// arena.map_refused, platform.unsupported.
func Create(size int64) (*Arena, error) {
	if size < 1 || size > sizeMax {
		return nil, fault.New(fault.ArenaCreateRefused, component, "size", size).
			Because(fmt.Errorf("%d bytes are no size for an arena", size))
	}
	size = max(roundUp(size), 2*grain)
	f, err := createFile(size)
	if err != nil {
		return nil, err
	}
	a, err := mapped(f, size, true)
	if err == nil {
		err = a.prove()
	}
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, err
	}
	head := overlay[fileHeader](a.memory, 0)
	head.version.Store(arenaVersion)
	head.size.Store(uint64(size))
	head.magic.Store(arenaMagic)
	return a, nil
}

// Map maps the arena in f, whose owner has said that it has size bytes
// (Arena.Size). On success f belongs to the arena and Close closes it. Faults:
// arena.file_mismatched, arena.map_refused, platform.unsupported.
func Map(f *os.File, size int64) (*Arena, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fault.New(fault.ArenaMapRefused, component).Because(err)
	}
	if info.Size() != size || size < 2*grain || size%grain != 0 {
		return nil, mismatch("it has %d bytes, announced are %d", info.Size(), size)
	}
	a, err := mapped(f, size, false)
	if err != nil {
		return nil, err
	}
	head := overlay[fileHeader](a.memory, 0)
	magic, version, told := head.magic.Load(), head.version.Load(), head.size.Load()
	switch {
	case magic != arenaMagic:
		err = mismatch("it begins with %#x", magic)
	case version != arenaVersion:
		err = mismatch("its version is %d, known is %d", version, arenaVersion)
	case told != uint64(size):
		err = mismatch("its header says %d bytes, announced are %d", told, size)
	default:
		return a, nil
	}
	return nil, errors.Join(err, unmapMemory(a.memory))
}

func mismatch(format string, args ...any) error {
	return fault.New(fault.ArenaFileMismatch, component, "what", fmt.Sprintf(format, args...))
}

func mapped(f *os.File, size int64, owner bool) (*Arena, error) {
	memory, err := mapFile(f, size)
	if err != nil {
		return nil, err
	}
	return &Arena{file: f, size: size, owner: owner, memory: memory, ends: map[*end]struct{}{}}, nil
}

// prove reserves the first and the last page, writes them through the map,
// reads them back through the file and leaves them zero.
func (a *Arena) prove() error {
	const mark = "muster arena proof"
	for _, at := range []int64{0, a.size - grain} {
		if err := reserve(a.file, at, grain); err != nil {
			return errors.Join(err, unmapMemory(a.memory))
		}
		page := a.memory[at : at+grain]
		copy(page, mark)
		got := make([]byte, len(mark))
		_, err := a.file.ReadAt(got, at)
		clear(page)
		if err != nil || string(got) != mark {
			err = fault.New(fault.ArenaMapRefused, component).
				Because(fmt.Errorf("the page at %d does not read as written: %w", at, errors.Join(err, unmapMemory(a.memory))))
			return err
		}
	}
	return nil
}

// File is the memory file, to be passed to a child. It belongs to the arena.
func (a *Arena) File() *os.File { return a.file }

// Size is the length of the file in bytes.
func (a *Arena) Size() int64 { return a.size }

// Close detaches the ends that this process still holds here, also while they
// are in use, then unmaps the memory and closes the file. Other processes keep
// their maps. Closing twice does nothing.
func (a *Arena) Close() error {
	a.mu.Lock()
	memory := a.memory
	a.memory = nil
	ends := a.ends
	a.ends = nil
	a.mu.Unlock()
	if memory == nil {
		return nil
	}
	var errs []error
	for e := range ends {
		errs = append(errs, e.detach())
	}
	errs = append(errs, unmapMemory(memory), a.file.Close())
	return errors.Join(errs...)
}

// closed is the fault of whatever comes after Close.
func (a *Arena) closed() error { return fault.New(fault.ArenaClosed, component) }

func roundUp(n int64) int64 { return (n + grain - 1) &^ (grain - 1) }

// The headers must fit where the layout puts them.
var (
	_ [grain - unsafe.Sizeof(fileHeader{})]byte
	_ [grain - unsafe.Sizeof(ringHeader{})]byte
)
