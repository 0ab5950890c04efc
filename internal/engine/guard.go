package engine

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"github.com/hybridgroup/yzma/pkg/loader"
	"github.com/jupiterrider/ffi"

	"muster/internal/fault"
)

// What llama_version() and ggml_version() say in the pinned engine.
const (
	wantVersion     = "0.4.0-dev"
	wantGGMLVersion = "0.23.0"
)

// The defaults of llama.cpp 0.4.0. A struct of another layout shows as another
// value in some field.
var (
	wantModelParams = llama.ModelParams{
		NGpuLayers: -1, SplitMode: llama.SplitModeLayer, LoadMode: llama.LoadModeAuto,
		LazyMode: llama.LazyModeAuto, UseExtraBufts: 1,
	}
	wantContextParams = llama.ContextParams{
		NCtx: 512, NBatch: 2048, NUbatch: 512, NSeqMax: 1, NOutputsMaxPerSeq: 1, NThreads: 4, NThreadsBatch: 4,
		RopeScalingType: llama.RopeScalingTypeUnspecified, PoolingType: llama.PoolingTypeUnspecified,
		AttentionType: llama.AttentionTypeUnspecified, FlashAttentionType: llama.FlashAttentionTypeAuto,
		YarnExtFactor: -1, YarnAttnFactor: -1, YarnBetaFast: -1, YarnBetaSlow: -1, DefragThold: -1,
		TypeK: llama.GGMLTypeF16, TypeV: llama.GGMLTypeF16,
		Offload_kqv: 1, NoPerf: 1, OpOffload: 1, SwaFull: 1,
	}
)

// checkVersion asks a library who it is. It passes no struct. of stands before the
// version in a fault.
func checkVersion(dir string, lib loader.Lib, function, want, of string) error {
	mismatch := func(got string) *fault.Fault {
		return fault.New(fault.EngineVersionMismatched, component, "path", dir, "version", of+got, "want", of+want)
	}
	f, err := lib.Prep(function, &ffi.TypePointer)
	if err != nil {
		return mismatch("of before 0.4").Because(err)
	}
	var p *byte
	f.Call(unsafe.Pointer(&p))
	if got := cString(p, 64); got != want {
		return mismatch(got)
	}
	return nil
}

// checkLayout compares the layouts this build drives with those of the library.
// Each probe gives the library room beyond the expected size, so that a larger
// struct is seen and not written over other memory.
func checkLayout(dir string, lib, base loader.Lib) error {
	probes := []func() (string, error){
		func() (string, error) {
			return checkDefaults(lib, "llama_model_default_params", wantModelParams)
		},
		func() (string, error) {
			return checkDefaults(lib, "llama_context_default_params", wantContextParams)
		},
		func() (string, error) { return checkTensor(base) },
		func() (string, error) { return checkTraits(base) },
		func() (string, error) { return checkThreadpool(base) },
	}
	for _, probe := range probes {
		what, err := probe()
		if err == nil && what == "" {
			continue
		}
		f := fault.New(fault.EngineABIMismatched, component, "path", dir, "what", what)
		if err != nil {
			f.Because(err)
		}
		return f
	}
	return nil
}

// roomy is a struct type larger than any the library returns by value.
var roomy = func() ffi.Type {
	words := make([]*ffi.Type, 64)
	for i := range words {
		words[i] = &ffi.TypeUint64
	}
	return ffi.NewType(words...)
}()

const untouched = 0xa5

// checkDefaults calls a function that returns a struct of defaults and compares
// value and size with want.
func checkDefaults[T comparable](lib loader.Lib, name string, want T) (string, error) {
	f, err := lib.Prep(name, &roomy)
	if err != nil {
		return name, err
	}
	buf := new([64]uint64)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(buf)), unsafe.Sizeof(*buf))
	for i := range raw {
		raw[i] = untouched
	}
	f.Call(unsafe.Pointer(buf))
	size := int(unsafe.Sizeof(want))
	if !bytes.Equal(raw[size:], bytes.Repeat([]byte{untouched}, len(raw)-size)) {
		return name + " returns a larger struct", nil
	}
	if got := *(*T)(unsafe.Pointer(buf)); got != want {
		return name + " returns other defaults", nil
	}
	return "", nil
}

// Where struct ggml_tensor holds what the evaluation filter reads.
const (
	tensorType = 0   // enum ggml_type
	tensorNe   = 16  // int64 ne[4]
	tensorNb   = 48  // size_t nb[4]
	tensorName = 256 // char name[64]
	tensorRoom = 1024
)

// checkTensor lets the library read a struct ggml_tensor made here.
func checkTensor(base loader.Lib) (string, error) {
	getName, err := base.Prep("ggml_get_name", &ffi.TypePointer, &ffi.TypePointer)
	if err != nil {
		return "ggml_get_name", err
	}
	elements, err := base.Prep("ggml_nelements", &ffi.TypeSint64, &ffi.TypePointer)
	if err != nil {
		return "ggml_nelements", err
	}
	nbytes, err := base.Prep("ggml_nbytes", &ffi.TypeUint64, &ffi.TypePointer)
	if err != nil {
		return "ggml_nbytes", err
	}
	t := unsafe.Pointer(new([tensorRoom / 8]uint64))
	*(*[4]int64)(unsafe.Add(t, tensorNe)) = [4]int64{3, 5, 7, 11}
	*(*[4]uint64)(unsafe.Add(t, tensorNb)) = [4]uint64{4, 12, 60, 420}
	var name unsafe.Pointer
	getName.Call(unsafe.Pointer(&name), unsafe.Pointer(&t))
	if uintptr(name)-uintptr(t) != tensorName {
		return fmt.Sprintf("the name of a tensor lies at %d", uintptr(name)-uintptr(t)), nil
	}
	var n, size ffi.Arg
	elements.Call(unsafe.Pointer(&n), unsafe.Pointer(&t))
	nbytes.Call(unsafe.Pointer(&size), unsafe.Pointer(&t))
	if n != 3*5*7*11 || size != 4*3*5*7*11 {
		return "the shape of a tensor lies elsewhere", nil
	}
	return "", nil
}

// checkTraits compares two entries of ggml's type table.
func checkTraits(base loader.Lib) (string, error) {
	f, err := base.Prep("ggml_get_type_traits", &ffi.TypePointer, &ffi.TypeSint32)
	if err != nil {
		return "ggml_get_type_traits", err
	}
	for _, want := range []struct {
		typ         llama.GGMLType
		name        string
		block, size int64
		toFloat     bool
	}{
		{llama.GGMLTypeF32, "f32", 1, 4, false},
		{llama.GGMLTypeQ8_0, "q8_0", 32, 34, true},
	} {
		t := traitsOf(f, want.typ)
		if cString(t.name, 16) != want.name || t.block != want.block || t.size != want.size || (t.toFloat != 0) != want.toFloat {
			return "the type table of ggml has another layout", nil
		}
	}
	return "", nil
}

// checkThreadpool compares the defaults of a thread pool.
func checkThreadpool(base loader.Lib) (string, error) {
	f, err := base.Prep("ggml_threadpool_params_init", &ffi.TypeVoid, &ffi.TypePointer, &ffi.TypeSint32)
	if err != nil {
		return "ggml_threadpool_params_init", err
	}
	var buf struct {
		params llama.ThreadpoolParams
		beyond [512]byte
	}
	p, threads := unsafe.Pointer(&buf), int32(3)
	f.Call(nil, unsafe.Pointer(&p), unsafe.Pointer(&threads))
	if buf.params != (llama.ThreadpoolParams{NThreads: 3, Poll: 50}) || buf.beyond != [512]byte{} {
		return "ggml_threadpool_params_init gives other defaults", nil
	}
	return "", nil
}
