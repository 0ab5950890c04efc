package syslib_test

import (
	"testing"

	"muster/internal/syslib"
)

func TestMissing(t *testing.T) {
	const tail = ": cannot open shared object file: No such file or directory"
	for text, want := range map[string][2]string{
		"muster-worker: error while loading shared libraries: libstdc++.so.6" + tail: {"libstdc++.so.6", "libstdc++6"},
		"panic: libffi.so.8" + tail + "\n\ngoroutine 1 [running]:":                   {"libffi.so.8", "libffi8"},
		"dlopen: libgomp.so.1" + tail:                                                {"libgomp.so.1", "libgomp1"},
		"libvulkan.so.1" + tail:                                                      {"libvulkan.so.1", "libvulkan1"},
		"libgcc_s.so.1" + tail:                                                       {"libgcc_s.so.1", "libgcc-s1"},
		"libm.so.6" + tail:                                                           {"libm.so.6", "libc6"},
		"ld-linux-x86-64.so.2" + tail:                                                {"ld-linux-x86-64.so.2", "libc6"},
		"libbz2.so.1.0" + tail:                                                       {"libbz2.so.1.0", "libbz2-1"},
		"libcuda.so.1" + tail:                                                        {"libcuda.so.1", "libcuda1"},
		"/opt/engine/libllama.so" + tail + "\nlibOpenCL.so.1" + tail:                 {"libOpenCL.so.1", "libopencl1"},
		"/opt/engine/libggml.so" + tail:                                              {},
		"it said that libffi.so.8 was not there":                                     {},
		"/e/libggml-cpu.so: undefined symbol: ggml_abort":                            {},
		"libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /e/libllama.so)": {},
		"": {},
	} {
		library, pkg, found := syslib.Missing(text)
		if library != want[0] || pkg != want[1] || found != (want[0] != "") {
			t.Errorf("%q: %q of %q, %t", text, library, pkg, found)
		}
	}
}
