package store_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"muster/internal/fault"
	"muster/internal/store"
	"muster/internal/testkit"
)

func TestTheFolderIsMadeForThisUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b", "50%?x=1#c&d")
	testkit.Leaks(t)
	s := opened(t, dir)
	set(t, s, twoNodes())
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may use %s: %v", path, info.Mode())
		}
		names = append(names, entry.Name())
		return err
	})
	if err != nil || !slices.Contains(names, "muster.db") {
		t.Errorf("the folder holds %q (%v)", names, err)
	}
	closed(t, s)
	if _, err := os.Stat(file(dir) + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the file of changes is still there (%v)", err)
	}
}

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(file(taken), 0o700); err != nil { // a folder of the file's name
		t.Fatal(err)
	}
	folders := []string{plain, filepath.Join(plain, "below"), taken}
	if os.Geteuid() != 0 { // root may write everywhere
		shut := filepath.Join(dir, "shut")
		if err := os.Mkdir(shut, 0o500); err != nil {
			t.Fatal(err)
		}
		folders = append(folders, shut, filepath.Join(shut, "below"))
	}
	for _, folder := range folders {
		_, err := store.Open(context.Background(), folder)
		if f := wantFault(t, err, fault.StoreFolderUnwritable); f.Attr("path") != folder {
			t.Errorf("%s is named for %s", f.Attr("path"), folder)
		}
	}
	if err := os.Remove(file(taken)); err != nil {
		t.Fatal(err)
	}
	opened(t, taken) // the lock was let go
}

// raw is the file as another program would open it.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), text); err != nil {
		t.Fatal(err)
	}
}

func TestANewerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	closed(t, opened(t, dir))
	db := raw(t, file(dir))
	execute(t, db, "PRAGMA user_version = 99")
	_ = db.Close()
	before, err := os.ReadFile(file(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(context.Background(), dir)
	f := wantFault(t, err, fault.StoreSchemaNewer)
	if f.Attr("version") != "99" {
		t.Errorf("of schema 99 this was said: %v", f)
	}
	if after, err := os.ReadFile(file(dir)); err != nil || !slices.Equal(after, before) {
		t.Errorf("a file that was refused has been written to (%v)", err)
	}
}

func TestAnOlderSchemaIsBroughtUpWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	s := opened(t, dir)
	p := set(t, s, twoNodes())
	closed(t, s)

	const half = "CREATE TABLE half (x TEXT) STRICT"
	broken := append(store.Migrations(), half, "ALTER TABLE nowhere ADD COLUMN note TEXT")
	for range 2 {
		if _, err := store.OpenWith(ctx, dir, broken); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Fatalf("a step that fails is answered with %v", err)
		}
	}
	closed(t, opened(t, dir)) // it is of the schema it was

	later := append(store.Migrations(), half, "ALTER TABLE pool ADD COLUMN note TEXT")
	for range 2 {
		s, err := store.OpenWith(ctx, dir, later)
		if err != nil {
			t.Fatal(err)
		}
		if now, err := s.Pool(ctx, p.Name); err != nil || now.Epoch != p.Epoch || len(now.Nodes) != 2 {
			t.Errorf("after a migration the pool is %+v (%v)", now, err)
		}
		closed(t, s)
	}
	_, err := store.Open(ctx, dir)
	wantFault(t, err, fault.StoreSchemaNewer)
}

func TestADamagedFileIsRefused(t *testing.T) {
	whole := t.TempDir()
	s := opened(t, whole)
	set(t, s, twoNodes())
	for n := range 50 {
		add(t, s, n)
	}
	closed(t, s)
	sound, err := os.ReadFile(file(whole))
	if err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	db := raw(t, foreign)
	execute(t, db, "CREATE TABLE songs (title TEXT)")
	_ = db.Close()
	other, err := os.ReadFile(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for what, content := range map[string][]byte{
		"text":                     []byte(strings.Repeat("once upon a time ", 1000)),
		"cut in the middle":        sound[:len(sound)/2],
		"cut inside the header":    sound[:50],
		"another program's":        other,
		"a page of zeros":          slices.Concat(sound[:4096], make([]byte, 4096), sound[8192:]),
		"noise in the last pages":  slices.Concat(sound[:len(sound)-4096], []byte(strings.Repeat("\xa5", 4096))),
		"noise behind the header":  slices.Concat(sound[:100], []byte(strings.Repeat("\xa5", 900)), sound[1000:]),
		"zeros in place of schema": slices.Concat(sound[:100], make([]byte, 3996), sound[4096:]),
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(file(dir), content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := store.Open(context.Background(), dir)
			if f := wantFault(t, err, fault.StoreFileCorrupt); f.Attr("path") != file(dir) {
				t.Errorf("the file is not named: %v", f)
			}
			if after, err := os.ReadFile(file(dir)); err != nil || !slices.Equal(after, content) {
				t.Errorf("a file that was refused has been written to (%v)", err)
			}
		})
	}
}

func TestAFileThatIsTakenAwayIsNotMadeAnew(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(file(dir) + suffix); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = s.Pools(context.Background())
	_, _ = s.SetPool(context.Background(), twoNodes())
	if _, err := os.Stat(file(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty file stands where the state was (%v)", err)
	}
}
