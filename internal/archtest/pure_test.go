package archtest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

func TestCoresStartNothingAndReadNoClock(t *testing.T) {
	for _, name := range goFiles(t) {
		if !strings.HasPrefix(name, "internal/core/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		found, err := Impurities(filepath.Join(root, filepath.FromSlash(name)), nil)
		if err != nil {
			t.Error(err)
		}
		for _, breach := range found {
			t.Errorf("%s: a core decides, its shell acts", breach)
		}
	}
}

func TestImpuritiesAreSeen(t *testing.T) {
	cases := map[string]string{
		"starts a goroutine":                 `func f() { go f() }`,
		"has a channel":                      `var c chan int`,
		"selects on channels":                `func f() { select {} }`,
		"sends on a channel":                 `func f() { c <- 1 }`,
		"receives from a channel":            `func f() { <-c }`,
		"reads the clock with time.Now":      `import "time"; var t = time.Now()`,
		"reads the clock with time.Since":    `import clock "time"; var t = clock.Since(x)`,
		"reads the clock with time.NewTimer": `import "time"; var t = time.NewTimer(time.Second)`,
		"":                                   `import "time"; func f(now time.Time) time.Time { return now.Add(time.Second) }`,
	}
	for want, code := range cases {
		got, err := Impurities("core.go", "package core\n"+code)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if got != nil {
				t.Errorf("%s is taken for impure: %q", code, got)
			}
			continue
		}
		if len(got) == 0 || got[0] != "core.go:2: "+want {
			t.Errorf("%s gives %q, want %q", code, got, want)
		}
	}
}

// goFiles returns the Go files of the module, from its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, folder := range []string{"cmd", "internal", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") {
				name, err := filepath.Rel(root, path)
				if err != nil {
					return err
				}
				found = append(found, filepath.ToSlash(name))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) == 0 {
		t.Fatal("no Go file found")
	}
	return found
}
