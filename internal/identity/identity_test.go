package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/identity"
	"muster/internal/testkit"
)

const maker = "MUSTER_TEST_MAKE_KEY"

// A copy of this binary told so makes the key at a path and prints its id.
func TestMain(m *testing.M) {
	path, told := os.LookupEnv(maker)
	if !told {
		os.Exit(m.Run())
	}
	key, err := identity.LoadOrMake(path)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(idOf(key).String())
}

func idOf(key ed25519.PrivateKey) id.NodeID { return id.NodeIDOf(key.Public().(ed25519.PublicKey)) }

func made(t *testing.T) (path string, key ed25519.PrivateKey) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "node.key")
	key, err := identity.LoadOrMake(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, key
}

func wants(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("want %s, got %v", code, err)
	}
	said := err.Error() + " / " + fault.From(err).Hint()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("%q does not name %q", said, w)
		}
	}
	if strings.ContainsAny(said, "{}") {
		t.Errorf("a figure is missing in %q", said)
	}
}

func TestTheKeyIsMadeOnceAndKept(t *testing.T) {
	path, key := made(t)
	for range 3 {
		again, err := identity.LoadOrMake(path)
		if err != nil || !again.Equal(key) {
			t.Fatalf("another key came: %v", err)
		}
	}
	loaded, err := identity.Load(path)
	if err != nil || !loaded.Equal(key) {
		t.Fatalf("another key was loaded: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder holds %v, %v", entries, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), idOf(key).String()) {
		t.Fatalf("the file does not show the id: %v", err)
	}
}

func TestFileAndFolderAreClosedToOthers(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	path, _ := made(t)
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		fi, err := os.Stat(name)
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v", name, fi.Mode(), err)
		}
	}
}

func TestTwoKeysDiffer(t *testing.T) {
	_, a := made(t)
	_, b := made(t)
	if a.Equal(b) {
		t.Fatal("two files hold one key")
	}
}

func TestLoadMakesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.key")
	_, err := identity.Load(path)
	wants(t, err, fault.IdentityKeyMissing, path)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("Load has made a file")
	}
}

func TestAnyFlippedBitIsFound(t *testing.T) {
	path, key := made(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range text {
		for bit := range 8 {
			flipped := bytes.Clone(text)
			flipped[at] ^= 1 << bit
			if err := os.WriteFile(path, flipped, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := identity.LoadOrMake(path)
			wants(t, err, fault.IdentityKeyCorrupt, path)
			if said := err.Error() + fault.From(err).Hint(); strings.Contains(said, string(text[len(text)-20:])) {
				t.Fatal("the fault repeats the secret")
			}
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := identity.Load(path); err != nil || !again.Equal(key) {
		t.Fatalf("the right file is refused: %v", err)
	}
}

func TestWhatIsNoKeyFileIsRefusedAndKept(t *testing.T) {
	path, _ := made(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty":      "",
		"cut off":    string(text[:len(text)-1]),
		"half":       string(text[:len(text)/2]),
		"twice":      string(text) + string(text),
		"more":       string(text) + "\n",
		"Windows":    strings.ReplaceAll(string(text), "\n", "\r\n"),
		"PEM":        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"very large": strings.Repeat("x", 1<<20),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := identity.LoadOrMake(path)
		wants(t, err, fault.IdentityKeyCorrupt, path)
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestAKeyThatOthersMayTouchIsRefused(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	path, key := made(t)
	for _, mode := range []fs.FileMode{0o644, 0o640, 0o620, 0o601, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := identity.LoadOrMake(path)
		wants(t, err, fault.IdentityKeyTooOpen, path, "chmod 600", mode.String())
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if again, err := identity.Load(path); err != nil || !again.Equal(key) {
		t.Fatalf("a file of mode 0400 is refused: %v", err)
	}
}

func TestAKeyOfAnotherUserIsRefused(t *testing.T) {
	testkit.Need(t, testkit.Root)
	path, _ := made(t)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	_, err := identity.LoadOrMake(path)
	wants(t, err, fault.IdentityKeyTooOpen, path, "12345", "chown")
}

func TestPathsThatAreNoFile(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	folder := t.TempDir()
	_, err := identity.LoadOrMake(folder)
	wants(t, err, fault.IdentityKeyUnreadable, folder)

	pipe := filepath.Join(folder, "pipe")
	if err := exec.Command("mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	_, err = identity.LoadOrMake(pipe)
	wants(t, err, fault.IdentityKeyUnreadable, pipe)

	file, _ := made(t)
	below := filepath.Join(file, "node.key")
	_, err = identity.LoadOrMake(below)
	wants(t, err, fault.IdentityKeyUnreadable, below)

	loop := filepath.Join(folder, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	_, err = identity.LoadOrMake(loop)
	wants(t, err, fault.IdentityKeyUnreadable, loop)
}

// Secrets are often mounted as links to files that are swapped as one.
func TestALinkToAKeyIsFollowedAndADanglingOneIsNotFilled(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	path, key := made(t)
	link := filepath.Join(t.TempDir(), "link.key")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if got, err := identity.LoadOrMake(link); err != nil || !got.Equal(key) {
		t.Fatalf("a link to the key: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := identity.LoadOrMake(link)
	wants(t, err, fault.IdentityKeyUnwritable, link)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a key was made where the link points")
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	testkit.Need(t, testkit.Linux)
	_, err := identity.LoadOrMake("/proc/self/node.key")
	wants(t, err, fault.IdentityKeyUnwritable, "/proc/self/node.key")
}

func TestProcessesThatMakeItAtOnceHoldOneKey(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		path := filepath.Join(t.TempDir(), "deep", "er", "node.key")
		const makers = 6
		var ids [makers]string
		var wg sync.WaitGroup
		for i := range makers {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), binary)
				cmd.Env = append(os.Environ(), maker+"="+path)
				out, err := cmd.Output()
				if err != nil {
					t.Errorf("%v: %s", err, out)
				}
				ids[i] = string(out)
			})
		}
		wg.Wait()
		for _, got := range ids {
			if got != ids[0] || len(got) != 52 {
				t.Fatalf("the processes hold %q", ids)
			}
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 {
			t.Fatalf("left behind: %v, %v", entries, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.key")
	if _, err := identity.LoadOrMake(path); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("muster key 1\nid \nseed \n"))
	f.Add([]byte("muster key 1\n\n\n"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(folder, "fuzz.key")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := identity.Load(path)
		if err != nil {
			wants(t, err, fault.IdentityKeyCorrupt)
			return
		}
		if !bytes.Contains(text, []byte(idOf(key).String())) {
			t.Fatal("a key came that does not fit the file's id")
		}
	})
}
