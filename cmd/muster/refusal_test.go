package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/demo"
	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// verbs serve a model, and refuse what cannot be the same way.
var verbs = [][]string{{"up"}, {"worker", "chain"}}

func TestBadModelsAreRefused(t *testing.T) {
	tale := demo.Tale()
	le := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)} }
	for name, c := range map[string]struct {
		code string
		make func(b *bench) string
	}{
		"missing":            {"gguf.file_missing", func(*bench) string { return "nothing.gguf" }},
		"a folder":           {"gguf.file_unreadable", func(b *bench) string { return b.dir }},
		"empty":              {"gguf.file_empty", func(b *bench) string { return b.write("m", nil) }},
		"cut in the header":  {"gguf.header_truncated", func(b *bench) string { return b.write("m", tale[:5000]) }},
		"cut in the data":    {"gguf.data_truncated", func(b *bench) string { return b.write("m", tale[:len(tale)-4096]) }},
		"not a GGUF":         {"gguf.magic_wrong", func(b *bench) string { return b.write("m", bytes.Repeat([]byte("no model "), 999)) }},
		"no layers":          {"model.block_count_invalid", func(b *bench) string { return b.patched("m", "llama.block_count", le(0)...) }},
		"too many layers":    {"model.block_count_invalid", func(b *bench) string { return b.patched("m", "llama.block_count", le(9)...) }},
		"absurdly many":      {"model.block_count_invalid", func(b *bench) string { return b.patched("m", "llama.block_count", le(1<<31)...) }},
		"architecture":       {"model.architecture_unsupported", func(b *bench) string { return b.write("m", bytes.ReplaceAll(tale, []byte("llama"), []byte("mamba"))) }},
		"part of a split":    {"gguf.split_incomplete", func(b *bench) string { return b.part("m-00001-of-00003.gguf") }},
		"another byte order": {"gguf.version_unsupported", func(b *bench) string { return b.write("m", append([]byte("GGUF\x00\x00\x00\x03"), tale[8:]...)) }},
		"a version to come":  {"gguf.version_unsupported", func(b *bench) string { return b.write("m", append([]byte("GGUF\x09\x00\x00\x00"), tale[8:]...)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			model := c.make(b)
			for _, verb := range verbs {
				b.refuses(c.code, append(verb, "--nodes", "2", "--model", model, "--prompt", "x")...)
			}
		})
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	ofNodes := map[string]string{ // where a pool says it in its own words
		"chain.workers_invalid":    "cli.flag_invalid",
		"recipe.context_too_large": "plan.memory_short",
	}
	deep := randmodel.Config{Architecture: "gemma3", Layers: 12}
	for name, c := range map[string]struct {
		code string
		args []string
	}{
		"no workers":            {"chain.workers_invalid", []string{"--nodes", "0"}},
		"fewer than none":       {"chain.workers_invalid", []string{"--nodes", "-1"}},
		"more than layers":      {"model.layers_too_few", []string{"--nodes", "9"}},
		"a cut past the end":    {"model.cut_refused", []string{"--cuts", "9"}},
		"a cut twice":           {"model.cut_refused", []string{"--cuts", "3,3"}},
		"prompt too long":       {"request.prompt_too_long", []string{"--prompt", strings.Repeat("Once upon a time. ", 400)}},
		"prompt over --ctx":     {"request.prompt_too_long", []string{"--ctx", "8", "--prompt", "Once upon a time there was a fox in a box by the sea"}},
		"context over memory":   {"recipe.context_too_large", []string{"--ctx", "16000000"}},
		"context absurd":        {"recipe.invalid", []string{"--ctx", "99999999"}},
		"negative context":      {"cli.flag_invalid", []string{"--ctx", "-5"}},
		"no chunk":              {"recipe.invalid", []string{"--chunk", "0"}},
		"too many threads":      {"recipe.invalid", []string{"--threads", "100000"}},
		"temperature below 0":   {"request.sampling_invalid", []string{"--temperature", "-1"}},
		"temperature no number": {"request.sampling_invalid", []string{"--temperature", "NaN"}},
		"top-p of nothing":      {"request.sampling_invalid", []string{"--temperature", "1", "--top-p", "0"}},
		"top-k over all bounds": {"request.sampling_invalid", []string{"--top-k", "9223372036854775807"}},
		"no prompt":             {"request.prompt_empty", []string{"--prompt", ""}},
		"prompt not UTF-8":      {"request.prompt_invalid", []string{"--prompt", "\x80\x80abc"}},
		"a prompt of megabytes": {"request.prompt_too_long", []string{"--prompt", strings.Repeat("a b ", 30_000)}},
		"seed below 0":          {"cli.flag_invalid", []string{"--seed", "-1"}},
		"top-p over 1":          {"request.sampling_invalid", []string{"--top-p", "1.5"}},
		"not a number":          {"cli.flag_invalid", []string{"--nodes", "many"}},
		"unknown flag":          {"cli.argument_unknown", []string{"--nodez", "3"}},
		"a word too many":       {"cli.argument_unknown", []string{"please"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			for _, verb := range verbs {
				code := c.code
				if other := ofNodes[code]; other != "" && verb[0] == "up" {
					code = other
				}
				b.refuses(code, slices.Concat(verb, []string{"--prompt", "x"}, c.args)...)
			}
		})
	}
	t.Run("the cut rule of an architecture", func(t *testing.T) {
		b := newBench(t)
		model := b.random("m.gguf", deep)
		for _, verb := range verbs {
			b.refuses("model.cut_refused", append(verb, "--model", model, "--cuts", "5", "--prompt", "x")...)
			b.refuses("model.layers_too_few", append(verb, "--model", model, "--nodes", "3", "--prompt", "x")...)
		}
	})
	t.Run("an unknown verb below worker", func(t *testing.T) { newBench(t).refuses("cli.argument_unknown", "worker", "foo") })
	t.Run("an unknown verb", func(t *testing.T) { newBench(t).refuses("cli.argument_unknown", "upp") })
}

func TestABadEngineIsRefused(t *testing.T) {
	t.Run("missing", func(t *testing.T) {
		b := newBench(t)
		b.refuses("engine.libraries_missing", "up", "--engine", b.dir, "--prompt", "x")
		b.refuses("engine.libraries_missing", "engine", "--engine", b.dir+"/nowhere")
	})
	t.Run("of another version", func(t *testing.T) {
		b := newBench(t)
		other := copyEngine(t, b.dir)
		patchVersion(t, filepath.Join(other, "libllama.v0.4.0.so"))
		b.refuses("engine.version_mismatched", "engine", "--engine", other)
		b.refuses("engine.version_mismatched", "up", "--engine", other, "--prompt", "x")
	})
	t.Run("damaged", func(t *testing.T) {
		b := newBench(t)
		other := copyEngine(t, b.dir)
		if err := os.Truncate(filepath.Join(other, "libllama.v0.4.0.so"), 100_000); err != nil {
			t.Fatal(err)
		}
		b.refuses("engine.load_failed", "up", "--engine", other, "--prompt", "x")
	})
}

// copyEngine copies the engine's folder with its links.
func copyEngine(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(dir, "engine")
	if err := os.CopyFS(to, os.DirFS(testkit.EngineDir(t))); err != nil {
		t.Fatal(err)
	}
	return to
}

// patchVersion makes a library say that it is of an older version.
func patchVersion(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	older := bytes.ReplaceAll(b, []byte("0.4.0-dev"), []byte("0.3.9-dev"))
	if bytes.Equal(older, b) {
		t.Fatal("the library holds no version to change")
	}
	if err := os.WriteFile(path, older, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestABadDataFolderIsRefused(t *testing.T) {
	b := newBench(t)
	file := b.write("file", []byte("x"))
	b.refuses("identity.key_unreadable", "up", "--data", file, "--prompt", "x")
	b.refuses("identity.key_unwritable", "up", "--data", "/proc/muster", "--prompt", "x")
	b.refuses("cache.folder_unwritable", "worker", "chain", "--data", file, "--prompt", "x")
	b.refuses("cache.folder_unwritable", "worker", "chain", "--data", "/proc/muster", "--prompt", "x")
}

// Without a home folder there is no usual place for keys and stores, and the
// working folder is none.
func TestWithoutAHomeAFolderMustBeNamed(t *testing.T) {
	b := newBench(t)
	b.env = append(b.env, "HOME=", "XDG_CONFIG_HOME=")
	for _, args := range [][]string{
		{"node", "--id"}, {"node", "--orchestrator", "x"}, {"serve"}, {"pool", "show"}, {"pool", "init", "lab"}, {"status", "--node"}, {"model", "list"}, {"model", "add", "x.gguf"},
	} {
		b.refuses("cli.flag_invalid", args...)
	}
	b.refuses("gateway.orchestrator_unreached", "status", "--api", "127.0.0.1:1")
}
