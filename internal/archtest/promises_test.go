package archtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

type lock struct {
	LockfileVersion int
	Packages        map[string]struct {
		Version      string
		Integrity    string
		Resolved     string
		Dependencies map[string]string
	}
}

// An engine package is pinned by version and digest, and comes from whatever
// registry the machine uses.
func TestEngineLocksPinOnePackageWithoutAddress(t *testing.T) {
	locks, err := filepath.Glob(filepath.Join(root, "engine", "*", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(locks) != 10 {
		t.Errorf("there are locks of %d platforms, want 10", len(locks))
	}
	for _, file := range locks {
		platform := filepath.Base(filepath.Dir(file))
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "://") || strings.Contains(string(content), "resolved") {
			t.Errorf("the lock of %s holds a download address", platform)
		}
		var l lock
		if err := json.Unmarshal(content, &l); err != nil {
			t.Errorf("the lock of %s: %v", platform, err)
			continue
		}
		name := "@node-llama-cpp/" + platform
		got := l.Packages["node_modules/"+name]
		if len(l.Packages) != 2 || got.Version != "3.21.1" || !strings.HasPrefix(got.Integrity, "sha512-") {
			t.Errorf("the lock of %s does not pin just %s 3.21.1 by digest", platform, name)
		}
		if want := l.Packages[""].Dependencies[name]; want != got.Version {
			t.Errorf("%s asks for %s %q, its lock pins %q", platform, name, want, got.Version)
		}
		var asked struct{ Dependencies map[string]string }
		if err := json.Unmarshal(read(t, "engine/"+platform+"/package.json"), &asked); err != nil {
			t.Errorf("package.json of %s: %v", platform, err)
		} else if len(asked.Dependencies) != 1 || asked.Dependencies[name] != got.Version {
			t.Errorf("package.json of %s asks for %v, its lock pins %s %s", platform, asked.Dependencies, name, got.Version)
		}
	}
}

func TestMakefilePromises(t *testing.T) {
	makefile := string(read(t, "Makefile"))
	for _, target := range []string{"help", "demo", "test", "check", "build", "engine", "generate", "bench", "clean"} {
		if !regexp.MustCompile(`(?m)^` + target + `:.* ## .+$`).MatchString(makefile) {
			t.Errorf("make help does not show %s", target)
		}
	}
	for _, tool := range []string{"gofumpt", "staticcheck", "golangci-lint"} {
		if !regexp.MustCompile(`bin/tools/` + tool + `@v\d+\.\d+\.\d+\n`).MatchString(makefile) {
			t.Errorf("%s is not pinned to a version", tool)
		}
	}
}

func TestCICallsWhatADeveloperCalls(t *testing.T) {
	const name = ".ci/run"
	script := string(read(t, name))
	for _, command := range []string{"set -euo pipefail", "make check", "make test"} {
		if !regexp.MustCompile(`(?m)^\s*` + command + `$`).MatchString(script) {
			t.Errorf("%s lacks the line %q", name, command)
		}
	}
}

// A dependency nobody gave a reason for is one nobody weighed.
func TestEveryDependencyHasItsReason(t *testing.T) {
	direct, all := required(string(read(t, "go.mod")))
	named := reasons(string(read(t, "docs/dependencies.md")))
	for _, module := range direct {
		if !slices.Contains(named, module) {
			t.Errorf("docs/dependencies.md gives no reason for %s", module)
		}
	}
	for _, module := range named {
		isModule := strings.Contains(module, "/") && !strings.HasPrefix(module, "@")
		if isModule && !slices.Contains(all, module) {
			t.Errorf("docs/dependencies.md names %s, which go.mod does not", module)
		}
	}
}

func TestRequirementsAreRead(t *testing.T) {
	direct, all := required("module x\n\nrequire a.b/c v1.0.0\n\nrequire (\n\td.e/f v1.2.3\n\tg.h/i v0.1.0 // indirect\n)\n")
	if !slices.Equal(direct, []string{"a.b/c", "d.e/f"}) || !slices.Equal(all, []string{"a.b/c", "d.e/f", "g.h/i"}) {
		t.Errorf("direct are %q, all are %q", direct, all)
	}
	if got := reasons("| module | why |\n|---|---|\n| `a.b/c` | for x |\n| `d.e/f` 1.0 | for y |\n| `empty` | |\n"); !slices.Equal(got, []string{"a.b/c", "d.e/f"}) {
		t.Errorf("reasons are given for %q", got)
	}
}

// required returns the modules of a go.mod that are used directly, and all.
func required(mod string) (direct, all []string) {
	for _, m := range regexp.MustCompile(`(?m)^(?:require |\t)(\S+) v\S+(.*)$`).FindAllStringSubmatch(mod, -1) {
		all = append(all, m[1])
		if !strings.Contains(m[2], "// indirect") {
			direct = append(direct, m[1])
		}
	}
	return direct, all
}

// reasons returns what the first column of a page's tables names where the
// last column is not empty.
func reasons(page string) []string {
	var named []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]*\\|(?:.*\\|)? *[^ |][^|]*\\|$").FindAllStringSubmatch(page, -1) {
		named = append(named, m[1])
	}
	return named
}
