package engine

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ebitengine/purego"
	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"

	"muster/internal/fault"
	"muster/internal/wire"
)

// Library is the loaded llama.cpp of this process.
type Library struct {
	dir     string
	system  string
	devices []wire.Device
	log     *journal

	opening  sync.Mutex    // one model or context is opened at a time
	progress func(float32) // of the load under way; guarded by opening

	evalCallback     uintptr // C address of evaluate
	progressCallback uintptr // C address of the load's progress; 0 where floats cannot be passed
	tensorGet        uintptr // ggml_backend_tensor_get
	typeTraits       ffi.Fun // ggml_get_type_traits
	tokenize         ffi.Fun // llama_tokenize
}

// begun is set when the dynamic loader is first called: what it has mapped stays,
// so a process gets one try.
var begun atomic.Bool

// Load maps the libraries of the folder, refuses any but the pinned engine before
// a struct is passed, and starts the compute backends. It succeeds once a process.
//
// sink gets each line of the library's log with its ggml level (1 debug to 4
// error), from any thread, one at a time; it must not call this package. It may be
// nil.
//
// Faults: EngineMissing, EngineLoadFailed, WorkerLibraryMissing,
// EngineVersionMismatched, EngineABIMismatched, EngineDeviceMissing.
func Load(dir string, sink func(level int, line string)) (*Library, error) {
	if err := checkFiles(dir); err != nil {
		return nil, err
	}
	if begun.Swap(true) {
		return nil, fault.New(fault.EngineLoadFailed, component, "path", dir).
			Because(errors.New("this process has tried to load an engine before"))
	}
	runtime.LockOSThread() // the loader keeps its last error for each thread
	defer runtime.UnlockOSThread()
	l := &Library{dir: dir, log: &journal{sink: sink}}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.start(); err != nil {
		return nil, err
	}
	return l, nil
}

// open maps the libraries and guards them.
func (l *Library) open() error {
	lib, err := loader.LoadLibrary(l.dir, "llama")
	if err != nil {
		return loadFault(l.dir, err)
	}
	if err := checkVersion(l.dir, lib, "llama_version", wantVersion, ""); err != nil {
		return err
	}
	base, err := loader.LoadLibrary(l.dir, "ggml-base")
	if err != nil {
		return loadFault(l.dir, err)
	}
	if err := checkVersion(l.dir, base, "ggml_version", wantGGMLVersion, "ggml "); err != nil {
		return err
	}
	if err := checkLayout(l.dir, lib, base); err != nil {
		return err
	}
	if err := llama.Load(l.dir); err != nil {
		return fault.New(fault.EngineABIMismatched, component, "path", l.dir, "what", "a function is missing").Because(err)
	}
	return l.bind(lib, base)
}

// bind finds the functions which yzma does not offer.
func (l *Library) bind(lib, base loader.Lib) error {
	get, err1 := base.Prep("ggml_backend_tensor_get", &ffi.TypeVoid,
		&ffi.TypePointer, &ffi.TypePointer, &ffi.TypeUint64, &ffi.TypeUint64)
	traits, err2 := base.Prep("ggml_get_type_traits", &ffi.TypePointer, &ffi.TypeSint32)
	tokenize, err3 := lib.Prep("llama_tokenize", &ffi.TypeSint32, &ffi.TypePointer, &ffi.TypePointer, &ffi.TypeSint32,
		&ffi.TypePointer, &ffi.TypeSint32, &ffi.TypeUint8, &ffi.TypeUint8)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fault.New(fault.EngineABIMismatched, component, "path", l.dir, "what", "a function is missing").Because(err)
	}
	l.tensorGet, l.typeTraits, l.tokenize = get.Addr, traits, tokenize
	return nil
}

// start sets the callbacks and starts the backends.
func (l *Library) start() error {
	llama.LogSet(purego.NewCallback(func(level int32, text *byte, _ uintptr) uintptr {
		l.log.add(int(level), cString(text, longestLine))
		return 0
	}))
	l.evalCallback = purego.NewCallback(evaluate)
	if runtime.GOOS != "windows" { // the Go runtime takes no floats in callbacks there
		l.progressCallback = purego.NewCallback(func(done float32, _ uintptr) uintptr {
			if l.progress != nil {
				l.progress(done)
			}
			return 1 // go on
		})
	}
	llama.BackendInit()
	if err := llama.GGMLBackendLoadAllFromPath(l.dir); err != nil {
		return loadFault(l.dir, err)
	}
	l.devices = listDevices()
	for _, d := range l.devices {
		if d.Kind == "cpu" {
			l.system = strings.TrimSpace(llama.PrintSystemInfo())
			return nil
		}
	}
	return l.noDevice()
}

// noDevice finds out why no CPU backend was loaded: ggml passes over those that the
// dynamic loader refuses, without a word.
func (l *Library) noDevice() error {
	backends, err := filepath.Glob(filepath.Join(l.dir, "*ggml-cpu*"))
	if err != nil || len(backends) == 0 {
		return fault.New(fault.EngineDeviceMissing, component).Because(errors.New("no CPU backend in " + l.dir))
	}
	for _, path := range backends {
		if _, err := ffi.Load(path); err != nil {
			return loadFault(l.dir, err)
		}
	}
	return fault.New(fault.EngineDeviceMissing, component).
		Because(errors.New("no CPU backend in " + l.dir + " runs on this processor"))
}

func listDevices() []wire.Device {
	kinds := map[llama.GGMLBackendDeviceType]string{
		llama.GGMLBackendDeviceTypeCPU:   "cpu",
		llama.GGMLBackendDeviceTypeGPU:   "gpu",
		llama.GGMLBackendDeviceTypeIGPU:  "igpu",
		llama.GGMLBackendDeviceTypeACCEL: "accel",
	}
	var devices []wire.Device
	for i := range llama.GGMLBackendDeviceCount() {
		dev := llama.GGMLBackendDeviceGet(i)
		kind, known := kinds[llama.GGMLBackendDevType(dev)]
		if !known {
			kind = "other"
		}
		free, total := llama.GGMLBackendDeviceMemory(dev)
		devices = append(devices, wire.Device{
			Kind:        kind,
			Name:        llama.GGMLBackendDeviceName(dev),
			Description: llama.GGMLBackendDeviceDescription(dev),
			MemoryFree:  free,
			MemoryTotal: total,
		})
	}
	return devices
}

// Version is what llama_version() says.
func (l *Library) Version() string { return wantVersion }

// System is what llama_print_system_info() says: the processor's features in use.
func (l *Library) System() string { return l.system }

// Devices lists what the engine can compute on, as seen when it was loaded.
func (l *Library) Devices() []wire.Device { return append([]wire.Device(nil), l.devices...) }
