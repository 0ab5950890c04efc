package engine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/testkit"
)

// folder makes an engine folder of links to the real one, without the files whose names
// hold one of the words.
func folder(t *testing.T, without ...string) string {
	t.Helper()
	source, err := filepath.Abs(testkit.EngineDir(t))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(source)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
next:
	for _, e := range entries {
		for _, word := range without {
			if strings.Contains(e.Name(), word) {
				continue next
			}
		}
		if err := os.Symlink(filepath.Join(source, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rewrite replaces a linked library by a changed copy of it.
func rewrite(t *testing.T, dir, name string, change func([]byte) []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(data), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// replace puts one text of a library in the place of another of equal length.
func replace(t *testing.T, old, text string) func([]byte) []byte {
	return func(data []byte) []byte {
		if len(old) != len(text) || !bytes.Contains(data, []byte(old)) {
			t.Fatalf("cannot put %q for %q", text, old)
		}
		return bytes.ReplaceAll(data, []byte(old), []byte(text))
	}
}

func TestLoadRefuses(t *testing.T) {
	testkit.Need(t, testkit.Linux) // the files below are ELF
	half := func(data []byte) []byte { return data[:len(data)/2] }
	text := func([]byte) []byte { return []byte("#!/bin/sh\n") }
	for _, c := range []struct {
		name string
		dir  func(t *testing.T) string
		code fault.Code
		says string
	}{
		{"no folder", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none") }, fault.EngineMissing, "no such folder"},
		{"a file", func(t *testing.T) string { return os.Args[0] }, fault.EngineMissing, "no such folder"},
		{"empty folder", func(t *testing.T) string { return t.TempDir() }, fault.EngineMissing, "no libggml-base.so"},
		{"without libllama", func(t *testing.T) string { return folder(t, "libllama.so") }, fault.EngineMissing, "no libllama.so"},
		{"dangling link", func(t *testing.T) string {
			dir := folder(t, "libllama.so")
			if err := os.Symlink("libllama.v9.so", filepath.Join(dir, "libllama.so")); err != nil {
				t.Fatal(err)
			}
			return dir
		}, fault.EngineMissing, "no libllama.so"},
		{"without what libllama needs", func(t *testing.T) string {
			return rewrite(t, rewrite(t, folder(t, "libggml.v"), "libllama.so", same), "libggml.so", same)
		}, fault.EngineMissing, "no libggml.v0.4.0.so"},
		{"not a library", func(t *testing.T) string { return rewrite(t, folder(t), "libllama.so", text) }, fault.EngineLoadFailed, "libllama.so"},
		{"cut off", func(t *testing.T) string { return rewrite(t, folder(t), "libllama.so", half) }, fault.EngineLoadFailed, "no whole ELF file"},
		{"cut-off backend", func(t *testing.T) string { return rewrite(t, folder(t), "libggml-cpu-x64.so", half) }, fault.EngineLoadFailed, "no whole ELF file"},
		{"empty file", func(t *testing.T) string {
			return rewrite(t, folder(t), "libggml-base.so", func([]byte) []byte { return nil })
		}, fault.EngineLoadFailed, "libggml-base.so"},
		{"another llama.cpp", func(t *testing.T) string {
			return rewrite(t, folder(t), "libllama.so", replace(t, "0.4.0-dev\x00", "0.3.9-dev\x00"))
		}, fault.EngineVersionMismatched, "llama.cpp 0.3.9-dev, this build drives 0.4.0-dev"},
		{"another ggml", func(t *testing.T) string {
			return rewrite(t, folder(t), "libggml-base.so", replace(t, "\x000.23.0\x00", "\x000.24.1\x00"))
		}, fault.EngineVersionMismatched, "ggml 0.24.1, this build drives ggml 0.23.0"},
		{"missing system library", func(t *testing.T) string {
			return rewrite(t, folder(t), "libllama.so", replace(t, "\x00libstdc++.so.6\x00", "\x00libstdc++.so.7\x00"))
		}, fault.WorkerLibraryMissing, "libstdc++.so.7"},
		{"no CPU backend", func(t *testing.T) string { return folder(t, "libggml-cpu") }, fault.EngineDeviceMissing, "no CPU backend"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testkit.EngineDir(t)
			f, out, err := inChild(t, "load", c.dir(t))
			if f == nil {
				t.Fatalf("no fault (%v): %s", err, out)
			}
			if f.Code != c.code || !strings.Contains(f.Error(), c.says) {
				t.Errorf("%s: %v\nwant %s with %q", f.Code, f, c.code, c.says)
			}
			if strings.Contains(f.Hint(), "{") {
				t.Errorf("the hint lacks a figure: %s", f.Hint())
			}
		})
	}
}

func same(data []byte) []byte { return data }

// A stand-in for libllama dies as soon as a function but its version is called: the
// guard must not get that far.
func TestVersionIsAskedFirst(t *testing.T) {
	for _, c := range []struct{ name, source, says string }{
		{"another version", `const char *llama_version(void) { return "0.5.0-dev"; }`, "0.5.0-dev"},
		{"none", `int nothing;`, "of before 0.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := standIn(t, c.source+`
				#include <stdlib.h>
				void llama_model_default_params(void *p) { abort(); }
				void llama_context_default_params(void *p) { abort(); }`)
			f, out, err := inChild(t, "load", dir)
			if f == nil || f.Code != fault.EngineVersionMismatched || f.Attr("version") != c.says {
				t.Fatalf("%v %v: %s", f, err, out)
			}
		})
	}
}

// Structs that differ in a value, in their size or in a function.
func TestLayoutIsCompared(t *testing.T) {
	const version = `const char *llama_version(void) { return "0.4.0-dev"; }
		struct s { char c[SIZE]; };`
	for _, c := range []struct{ name, source, says string }{
		{"other defaults", version + `struct s llama_model_default_params(void) { struct s all = {{7}}; return all; }`, "other defaults"},
		{"larger struct", version + `struct s llama_model_default_params(void) { struct s all = {{0}}; return all; }`, "larger struct"},
		{"no function", version, "llama_model_default_params"},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := "72"
			if strings.Contains(c.name, "larger") {
				size = "104"
			}
			f, out, err := inChild(t, "load", standIn(t, strings.ReplaceAll(c.source, "SIZE", size)))
			if f == nil || f.Code != fault.EngineABIMismatched || !strings.Contains(f.Attr("what"), c.says) {
				t.Fatalf("%v %v: %s", f, err, out)
			}
		})
	}
}

// standIn makes an engine folder whose libllama is compiled from source.
func standIn(t *testing.T, source string) string {
	t.Helper()
	testkit.Need(t, testkit.CC)
	testkit.Need(t, testkit.Linux)
	dir := folder(t, "libllama.so")
	file := filepath.Join(t.TempDir(), "llama.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(dir, "libllama.so"), file)
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestLoadOnceAProcess(t *testing.T) {
	library(t)
	_, err := Load(testkit.EngineDir(t), nil)
	if f := fault.From(err); f.Code != fault.EngineLoadFailed {
		t.Fatalf("a second load gave %v", err)
	}
}

func TestLibraryTellsWhatItIs(t *testing.T) {
	l := library(t)
	if l.Version() != "0.4.0-dev" || !strings.Contains(l.System(), "CPU") {
		t.Errorf("%q, %q", l.Version(), l.System())
	}
	for _, d := range l.Devices() {
		if d.Kind == "cpu" && d.Name != "" && d.MemoryTotal > 0 {
			return
		}
	}
	t.Errorf("no CPU with memory among %+v", l.Devices())
}
