package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longFiles are those over 400 lines, each with the reason why it is not cut.
var longFiles = map[string]string{}

func TestLongFilesAreNamed(t *testing.T) {
	const most = 400
	seen := map[string]bool{}
	for _, name := range goFiles(t) {
		content := read(t, name)
		if ast.IsGenerated(parse(t, name, parser.PackageClauseOnly|parser.ParseComments)) {
			continue
		}
		if lines := bytes.Count(content, []byte("\n")); lines > most {
			seen[name] = true
			if longFiles[name] == "" {
				t.Errorf("%s has %d lines: cut it where its second job begins, or name it in longFiles with a reason", name, lines)
			}
		}
	}
	for name := range longFiles {
		if !seen[name] {
			t.Errorf("%s has no more than %d lines: take it out of longFiles", name, most)
		}
	}
}

func TestEveryPackageSaysItsJob(t *testing.T) {
	said := map[string]bool{}
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := parse(t, name, parser.PackageClauseOnly|parser.ParseComments)
		said[path.Dir(name)] = said[path.Dir(name)] || file.Doc != nil
	}
	for folder, ok := range said {
		if !ok {
			t.Errorf("%s has no package comment: say its job, what it may not know and who owns it", folder)
		}
	}
}

// A path of the machine on which something was made helps nobody else.
func TestNoFileHoldsAPathOfABuildMachine(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for _, name := range strings.Split(strings.Trim(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if found := machinePath.Find(content); found != nil {
			t.Errorf("%s holds %q", name, bytes.TrimSpace(found))
		}
	}
}

// machinePath finds folders where people and build machines keep their work.
var machinePath = regexp.MustCompile(`(?m)(^|[\s"'=:(\x60])/(work|root|home|Users)/[A-Za-z0-9._-]+`)

func TestMachinePathsAreSeen(t *testing.T) {
	for _, folder := range []string{"work", "root", "home", "Users"} {
		for _, before := range []string{"", "x = \"", "see: ", "dir=", "`"} {
			if line := before + "/" + folder + "/somebody/file"; !machinePath.MatchString(line) {
				t.Errorf("%q is not seen", line)
			}
		}
	}
	for _, line := range []string{"shared/work/x", "the /root folder", "a/home/b"} {
		if machinePath.MatchString(line) {
			t.Errorf("%q is taken for a path of a machine", line)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func parse(t *testing.T, name string, mode parser.Mode) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
