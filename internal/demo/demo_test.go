package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestTaleIsTheFileThatWasMade(t *testing.T) {
	const want = "e3dde45232152fa65fe009f79721d4fc999a5e3d1e38e45b1d0d9130fd880e31"
	if got := digest(Tale()); got != want {
		t.Errorf("the built-in model has the digest %s, want %s: it was changed after it was checked", got, want)
	}
}

// The recipe's page names every file with size and digest; whoever changes one
// is told to say so there.
func TestRecipeNamesItsFiles(t *testing.T) {
	const folder = "../../tools/tale"
	page, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([0-9,]+) \\| `([0-9a-f]{64})` \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 8 {
		t.Fatalf("the table of README.md has %d files, want at least 8", len(rows))
	}
	for _, r := range rows {
		name, bytes, want := r[1], strings.ReplaceAll(r[2], ",", ""), r[3]
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strconv.Itoa(len(content)); got != bytes {
			t.Errorf("%s has %s bytes, README.md says %s", name, got, bytes)
		}
		if got := digest(content); got != want {
			t.Errorf("%s has the digest %s, README.md says %s", name, got, want)
		}
	}
}

func TestStories260KIsThePublishedOne(t *testing.T) {
	content, err := os.ReadFile("../../testdata/stories260K.gguf")
	if err != nil {
		t.Fatal(err)
	}
	const want = "b800c379f135e2e20d272f01659212920dd4c071ac5379d6919a3a9cdce5fb06"
	if got := digest(content); got != want {
		t.Errorf("testdata/stories260K.gguf has the digest %s, want %s", got, want)
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
