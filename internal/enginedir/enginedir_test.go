package enginedir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/internal/enginedir"
	"muster/internal/fault"
	"muster/internal/testkit"
)

// folder writes files with their own names as content.
func folder(t *testing.T, dir string, names ...string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// npm is where a package manager puts the libraries of variant under root.
func npm(root, variant string) string {
	p := enginedir.Platform() + variant
	return filepath.Join(root, "engine", p, "node_modules", "@node-llama-cpp", p, "bins", p)
}

func TestLocate(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	libraries := so("libllama.v0.4.0", "libggml.v0.4.0")
	root := t.TempDir()
	beside, cuda, chosen, empty := filepath.Join(root, "beside"), filepath.Join(root, "cuda"), filepath.Join(root, "chosen"), filepath.Join(root, "empty")
	folder(t, npm(beside, ""), libraries...)
	folder(t, npm(beside, "-vulkan"), libraries...)
	folder(t, npm(cuda, "-cuda"), so("libllama.cuda.v0.4.0", "libggml.v0.4.0")...)
	folder(t, chosen, libraries...)
	folder(t, empty)
	for name, c := range map[string]struct {
		chosen string
		bases  []string
		want   string // "" is a fault
		what   string
	}{
		"beside the program":            {bases: []string{empty, beside}, want: npm(beside, "")},
		"another package":               {bases: []string{cuda}, want: npm(cuda, "-cuda")},
		"chosen before all":             {chosen: chosen, bases: []string{beside}, want: chosen},
		"chosen where npm was run":      {chosen: filepath.Join(beside, "engine", enginedir.Platform()), want: npm(beside, "")},
		"chosen, and nothing there":     {chosen: empty, bases: []string{beside}, what: "no libllama.so"},
		"chosen, and there is no such":  {chosen: filepath.Join(root, "nowhere"), what: "no libllama.so"},
		"nowhere":                       {bases: []string{empty}, what: "not installed"},
		"no place to look at":           {what: "not installed"},
		"a file in place of the folder": {chosen: filepath.Join(chosen, libraries[0]), what: "no libllama.so"},
	} {
		got, err := enginedir.Locate(c.chosen, c.bases...)
		if c.want != "" && (err != nil || got != c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if c.want == "" && (!errors.Is(err, fault.EngineMissing) || !strings.Contains(err.Error(), c.what)) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestLinksAreMadeOnce(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	for name, c := range map[string]struct {
		files []string
		llama string
	}{
		"cpu":             {so("libllama.v0.4.0", "libggml.v0.4.0", "libggml-base"), "libllama.v0.4.0.so"},
		"cuda":            {so("libllama.cuda.v0.4.0", "libggml.v0.4.0"), "libllama.cuda.v0.4.0.so"},
		"two versions":    {so("libllama.v0.3.0", "libllama.v0.4.0", "libllama.v0.5.0", "libggml.v0.4.0"), "libllama.v0.4.0.so"},
		"another version": {so("libllama.v0.5.0", "libllama.v0.5.1", "libggml.v0.5.0"), "libllama.v0.5.1.so"},
		"short already":   {so("libllama", "libggml"), "libllama.so"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, t.TempDir(), c.files...)
			var making sync.WaitGroup
			for range 8 {
				making.Go(func() {
					if err := enginedir.Link(dir); err != nil {
						t.Errorf("link: %v", err)
					}
				})
			}
			making.Wait()
			if got, err := os.ReadFile(filepath.Join(dir, "libllama.so")); err != nil || string(got) != c.llama {
				t.Errorf("libllama.so is %q, %v", got, err)
			}
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") {
					t.Errorf("left behind: %s", e.Name())
				}
			}
		})
	}
}

func TestADanglingLinkIsReplaced(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	dir := folder(t, t.TempDir(), so("libllama.v0.4.0", "libggml.v0.4.0")...)
	if err := os.Symlink("libllama.v0.3.0.so", filepath.Join(dir, "libllama.so")); err != nil {
		t.Fatal(err)
	}
	if err := enginedir.Link(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "libllama.so")); err != nil || string(got) != "libllama.v0.4.0.so" {
		t.Errorf("libllama.so is %q, %v", got, err)
	}
}

func TestAFolderThatCannotBeLinkedIsRefused(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	dir := folder(t, t.TempDir(), so("libllama.v0.4.0", "libggml.v0.4.0")...)
	// A folder of the short name stands in the way for root as for others.
	if err := os.MkdirAll(filepath.Join(dir, "libllama.so", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := enginedir.Link(dir)
	if f := fault.From(err); f.Code != fault.EngineLinkRefused || !strings.Contains(f.Hint(), fmt.Sprintf("ln -s libllama.v0.4.0.so %s/libllama.so", dir)) {
		t.Errorf("got %v: %s", err, f.Hint())
	}
}

func TestAnIncompleteFolderIsNamed(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	dir := folder(t, t.TempDir(), so("libllama.v0.4.0")...)
	if err := enginedir.Link(dir); !errors.Is(err, fault.EngineMissing) || !strings.Contains(err.Error(), "libggml.so") {
		t.Errorf("got %v", err)
	}
}

func TestLibrariesAreKnownByTheirDigest(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	dir := folder(t, t.TempDir(), "libggml.v0.4.0.so", "libllama.v0.4.0.so", "llama-addon.node", "x.json")
	if err := enginedir.Link(dir); err != nil {
		t.Fatal(err)
	}
	got, err := enginedir.Libraries(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("found %v, %v", got, err)
	}
	// sha256 of the text "libllama.v0.4.0.so"
	const want = "910a7ff7047d806f7a405dd286b8c7b022a05e6727f82706c45065a988d61061"
	if l := got[1]; l.Name != "libllama.v0.4.0.so" || l.Size != 18 || l.Digest != want {
		t.Errorf("found %+v", l)
	}
	if _, err := enginedir.Libraries(folder(t, t.TempDir())); !errors.Is(err, fault.EngineMissing) {
		t.Errorf("an empty folder gave %v", err)
	}
}

func TestTheInstalledEngineIsFound(t *testing.T) {
	dir := testkit.EngineDir(t)
	libraries, err := enginedir.Libraries(dir)
	if err != nil || len(libraries) < 3 {
		t.Errorf("%d libraries in %s, %v", len(libraries), dir, err)
	}
}

// so gives names the ending of Linux.
func so(names ...string) []string {
	files := make([]string, len(names))
	for i, n := range names {
		files[i] = n + ".so"
	}
	return files
}
