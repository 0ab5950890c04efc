//go:build linux || darwin

package weights

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/internal/testkit"
)

// writeHalf begins a slice, says "half" when half of it is written and waits
// for its end.
func writeHalf(dir string) int {
	s, err := openSubject(filepath.Join(dir, "model.gguf"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	folder := filepath.Join(dir, "cache")
	if os.Getenv("MUSTER_TEST_WEIGHTS_UNNAMED") != "" {
		folder = ""
	}
	c, err := OpenCache(folder)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = s.slice(c, func(done, total int64) {
		if done > total/2 {
			fmt.Println("half")
			_, _ = io.ReadAll(os.Stdin)
		}
	})
	fmt.Println("went on:", err)
	return 1
}

// TestKilledWriterIsSwept: kill -9 in the middle leaves a leftover in a named
// cache until it is opened again, and nothing in one without names.
func TestKilledWriterIsSwept(t *testing.T) {
	testkit.Leaks(t)
	for _, unnamed := range []string{"", "1"} {
		dir := t.TempDir()
		tmp := t.TempDir()
		s := newSubjectIn(t, dir)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir, "MUSTER_TEST_WEIGHTS_UNNAMED="+unnamed, "TMPDIR="+tmp)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "half\n" {
			t.Errorf("the writer said %q (%v)", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		_ = in.Close()

		folder := filepath.Join(dir, "cache")
		if unnamed != "" {
			if got := names(t, tmp); len(got) != 0 {
				t.Errorf("left behind: %v", got)
			}
			continue
		}
		if got := names(t, folder); len(got) != 1 || !strings.HasSuffix(got[0], part) {
			t.Errorf("the killed writer left %v", got)
		}
		c := open(t, folder)
		if got := names(t, folder); len(got) != 0 {
			t.Errorf("not swept: %v", got)
		}
		mustSlice(t, s, c)
	}
}
