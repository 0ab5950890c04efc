package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// fakeNPM writes what it was asked into calls and lays out a package as npm
// would, or fails where the file broken is there.
const fakeNPM = `#!/bin/sh
echo "$@" >>"$CALLS"
[ ! -e "$CALLS.broken" ] || { echo "npm error: no network" >&2; exit 1; }
rm -rf node_modules
mkdir -p node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
cd node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda
touch libllama.cuda.v0.4.0.so libggml.cuda.v0.4.0.so libggml-base.so libllama-common.so
`

type installer struct {
	t          *testing.T
	dir, calls string
}

// newInstaller copies install.sh beside the lock of one platform, with a fake
// npm first in the path.
func newInstaller(t *testing.T) installer {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("install.sh needs a POSIX shell")
	}
	dir := t.TempDir()
	i := installer{t: t, dir: filepath.Join(dir, "engine"), calls: filepath.Join(dir, "calls")}
	i.write("engine/install.sh", string(read(t, "engine/install.sh")), 0o755)
	i.write("engine/linux-x64-cuda/package-lock.json", "{}", 0o644)
	i.write("bin/npm", fakeNPM, 0o755)
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("CALLS", i.calls)
	return i
}

func (i installer) write(name, content string, mode os.FileMode) {
	i.t.Helper()
	path := filepath.Join(filepath.Dir(i.dir), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		i.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		i.t.Fatal(err)
	}
}

// run installs a platform and returns what was said and what npm was asked.
func (i installer) run(platform string) (said string, asked []string, err error) {
	i.t.Helper()
	_ = os.Remove(i.calls)
	out, err := exec.Command(filepath.Join(i.dir, "install.sh"), platform).CombinedOutput()
	calls, _ := os.ReadFile(i.calls)
	return string(out), strings.Fields(string(calls)), err
}

func TestInstallFetchesOnceAndLinksTheShortNames(t *testing.T) {
	i := newInstaller(t)
	said, asked, err := i.run("linux-x64-cuda")
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if got := strings.Join(asked, " "); !strings.HasPrefix(got, "ci --ignore-scripts ") {
		t.Errorf("npm was asked %q: it could run a package's scripts or leave the lock", got)
	}
	libraries := filepath.Join(i.dir, "linux-x64-cuda/node_modules/@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda")
	for short, want := range map[string]string{"libllama.so": "libllama.cuda.v0.4.0.so", "libggml.so": "libggml.cuda.v0.4.0.so"} {
		if got, err := os.Readlink(filepath.Join(libraries, short)); got != want {
			t.Errorf("%s leads to %q, want %q (%v)", short, got, want, err)
		}
	}

	if said, asked, err = i.run("linux-x64-cuda"); err != nil || len(asked) > 0 {
		t.Errorf("installed already, and npm was asked %q (%v): %s", asked, err, said)
	}

	i.write("engine/linux-x64-cuda/package-lock.json", `{"other":1}`, 0o644)
	if said, asked, err = i.run("linux-x64-cuda"); err != nil || len(asked) == 0 {
		t.Errorf("the lock has changed, and nothing was fetched (%v): %s", err, said)
	}
}

func TestInstallFailsWithoutNetworkAndMendsLater(t *testing.T) {
	i := newInstaller(t)
	i.write("calls.broken", "", 0o644)
	said, _, err := i.run("linux-x64-cuda")
	if err == nil || !strings.Contains(said, "no network") || !strings.Contains(said, "could not install linux-x64-cuda") {
		t.Errorf("npm failed, and this was said (%v): %s", err, said)
	}
	if err := os.Remove(i.calls + ".broken"); err != nil {
		t.Fatal(err)
	}
	if said, asked, err := i.run("linux-x64-cuda"); err != nil || len(asked) == 0 {
		t.Errorf("after a failure nothing was fetched (%v): %s", err, said)
	}
}

func TestInstallNamesThePlatformsThereAre(t *testing.T) {
	said, asked, err := newInstaller(t).run("amiga")
	if err == nil || len(asked) > 0 || !strings.Contains(said, "no platform amiga; there are: linux-x64-cuda") {
		t.Errorf("an unknown platform gives (%v, npm asked %q): %s", err, asked, said)
	}
}
