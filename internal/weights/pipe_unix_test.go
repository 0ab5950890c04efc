//go:build unix

package weights

import (
	"path/filepath"
	"syscall"
	"testing"

	"muster/internal/testkit"
)

// What lies in the cache's folder and is no plain file is never opened: a pipe
// would be waited for without end.
func TestPipesInTheFolderAreNotWaitedFor(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	s, dir := newSubject(t), t.TempDir()
	c := open(t, dir)
	path := mustSlice(t, s, c).Path()
	removeAndPipe := func(path string) {
		if err := removed(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removeAndPipe(path)
	removeAndPipe(filepath.Join(dir, slicesFolder, "stray"+part))
	again := mustSlice(t, s, open(t, dir))
	if !again.Made || again.Replaced == nil {
		t.Errorf("made %v, replaced %v", again.Made, again.Replaced)
	}
}
