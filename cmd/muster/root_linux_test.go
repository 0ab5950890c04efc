package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"muster/internal/testkit"
	"muster/internal/testkit/randmodel"
)

// disk mounts a memory disk of size bytes on a folder in b.
func (b *bench) disk(name, size string) string {
	b.t.Helper()
	testkit.Need(b.t, testkit.Root)
	path := filepath.Join(b.dir, name)
	must(b.t, os.Mkdir(path, 0o700))
	must(b.t, unix.Mount("tmpfs", path, "tmpfs", 0, "size="+size))
	b.t.Cleanup(func() { must(b.t, unix.Unmount(path, 0)) })
	return path
}

func TestAFullDiskEndsTheSlicing(t *testing.T) {
	t.Run("of the data folder", func(t *testing.T) {
		b := newBench(t)
		disk := b.disk("disk", "1m")
		// The folders of the cache are made before it is known to be too small.
		must(t, os.MkdirAll(disk+"/data/slices/slices", 0o700))
		must(t, os.MkdirAll(disk+"/data/slices/manifests", 0o700))
		model := b.random("m.gguf", randmodel.Config{Layers: 12, Type: "f32", Width: 128})
		b.refuses("cache.disk_full", "worker", "chain", "--nodes", "2", "--model", model, "--data", disk+"/data", "--prompt", "x")
		got := b.run("up", "--nodes", "2", "--model", model, "--data", disk+"/nodes", "--prompt", "x") // its keys stay
		if !strings.Contains(got.stderr, "code: cache.disk_full\n") && !strings.Contains(got.stderr, "code: store.disk_full\n") {
			t.Errorf("exit %d: %s", got.exit, got.stderr)
		}
	})
	t.Run("of temporary files", func(t *testing.T) {
		b := newBench(t)
		b.env = append(b.env, "TMPDIR="+b.disk("disk", "1m"))
		for _, verb := range verbs {
			b.refuses("cache.disk_full", append(verb, "--nodes", "2", "--prompt", "x")...)
		}
	})
}

// hideLibrary runs "$@" where the system library LIBRARY is missing: a folder
// of links to all the others is mounted over the one that holds it.
const hideLibrary = `set -e
where=$(dirname "$(ldconfig -p | sed -n "s/^.*$LIBRARY (libc6,x86-64) => //p" | head -n 1)")
mkdir "$WORK/real" "$WORK/links"
mount --bind "$where" "$WORK/real"
for f in "$WORK"/real/*; do ln -s "$f" "$WORK/links/"; done
rm "$WORK/links/$LIBRARY"
mount --bind "$WORK/links" "$where"
exec "$@"`

func TestAMissingSystemLibraryIsNamedWithItsPackage(t *testing.T) {
	testkit.Need(t, testkit.Root)
	for library, pkg := range map[string]string{"libffi.so.8": "libffi8", "libstdc++.so.6": "libstdc++6"} {
		t.Run(library, func(t *testing.T) {
			b := newBench(t)
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", hideLibrary, "sh",
				testkit.MusterBinary(t), "up", "--prompt", "x")
			cmd.Dir = b.dir
			cmd.Env = append(slices.Clone(b.env), "LIBRARY="+library, "WORK="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 3 {
				t.Fatalf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
			}
			for _, want := range []string{"code: worker.library_missing", library, "apt-get install " + pkg} {
				if !strings.Contains(string(out), want) {
					t.Errorf("nothing of %q in\n%s", want, out)
				}
			}
		})
	}
}
