// Package identity keeps the ed25519 key of a node or an orchestrator in a
// file. It knows nothing of pools: whose id is expected where is for others.
//
// A process asks once, at its start:
//
//	           no file                     a file
//	LoadOrMake ───────► make ──► key   ◄── read, check ◄── Load
//	                     │ another process was quicker
//	                     └──────► its key is read
//
// The file is text of three lines, each ended by a line feed, and nothing else:
//
//	muster key 1
//	id <the node id: 52 characters>
//	seed <the private seed: 52 characters, same alphabet>
//
// The id is the checksum: it is computed from the seed and must be the one
// that stands there, so that any flipped bit is found. The file must be
// regular (a symbolic link to one will do), belong to the user of the process
// and be closed to everybody else (0600 or less); Windows keeps that in access
// lists, which are not looked at.
package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"muster/internal/fault"
	"muster/internal/id"
)

const component = "identity"

// mostBytes is more than any key file has; no more of a file is read.
const mostBytes = 4 << 10

// linesOfKey is how many lines a key has in its file.
const linesOfKey = 3

// Load reads the key in the file at path. Faults: identity.key_missing,
// identity.key_unreadable, identity.key_too_open, identity.key_corrupt.
func Load(path string) (ed25519.PrivateKey, error) {
	f, err := open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.IdentityKeyMissing, component, "path", path)
	case err != nil:
		return nil, unreadable(path, "it cannot be opened").Because(err)
	}
	defer f.Close()
	if err := check(path, f); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return nil, unreadable(path, "it cannot be read").Because(err)
	}
	key, flaw := decode(text)
	if flaw != "" {
		return nil, fault.New(fault.IdentityKeyCorrupt, component, "path", path, "what", flaw)
	}
	return key, nil
}

// Make makes a key that no file keeps.
func Make() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	return key, nil
}

// Write hands a key to another process, in the form of the file.
func Write(to io.Writer, key ed25519.PrivateKey) error {
	_, err := to.Write(encode(key))
	return err
}

// Read takes a key that Write handed over, and leaves unread what follows it.
// Faults: identity.key_unreadable, identity.key_corrupt.
func Read(from io.ByteReader) (ed25519.PrivateKey, error) {
	var text []byte
	for lines := 0; lines < linesOfKey && len(text) <= mostBytes; {
		b, err := from.ReadByte()
		if err != nil {
			return nil, unreadable("standard input", "it ends before the key does").Because(err)
		}
		if text = append(text, b); b == '\n' {
			lines++
		}
	}
	key, flaw := decode(text)
	if flaw != "" {
		return nil, fault.New(fault.IdentityKeyCorrupt, component, "path", "standard input", "what", flaw)
	}
	return key, nil
}

// LoadOrMake reads the key in the file at path; where there is none it makes
// one, and the folders above it (0700). Of two processes that do so at once,
// both return the same key. Faults: those of Load, and
// identity.key_unwritable.
func LoadOrMake(path string) (ed25519.PrivateKey, error) {
	key, err := Load(path)
	if !errors.Is(err, fault.IdentityKeyMissing) {
		return key, err
	}
	if err := makeFile(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.IdentityKeyUnwritable, component, "path", path).Because(err)
	}
	return Load(path)
}

// makeFile writes a new key beside path and then gives it that name, which
// fails with fs.ErrExist where another process has been quicker.
func makeFile(path string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		return errors.New("it is a symbolic link to a file that is not there")
	}
	key, err := Make()
	if err != nil {
		return err
	}
	temp := path + "." + rand.Text() + ".new"
	defer os.Remove(temp) //nolint:errcheck // it may not have been made
	if err := writeSynced(temp, encode(key)); err != nil {
		return err
	}
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return syncFolder(folder)
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// check refuses a file that is not regular, or that others own or may touch.
func check(path string, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return unreadable(path, "it cannot be looked at").Because(err)
	}
	if !fi.Mode().IsRegular() {
		return unreadable(path, "it is not a regular file")
	}
	if owner, us := owners(fi); owner != us {
		return fault.New(fault.IdentityKeyTooOpen, component, "path", path,
			"what", "it belongs to "+owner+", this process runs as "+us, "want", "chown it to "+us+", or run as its owner")
	}
	if mode := fi.Mode().Perm(); modesMatter && mode&0o077 != 0 {
		return fault.New(fault.IdentityKeyTooOpen, component, "path", path,
			"what", "its mode is "+mode.String(), "want", "chmod 600 "+path+"; if somebody may have read it, make a new key")
	}
	return nil
}

func unreadable(path, what string) *fault.Fault {
	return fault.New(fault.IdentityKeyUnreadable, component, "path", path, "what", what)
}

const (
	head      = "muster key 1\n"
	idLabel   = "id "
	seedLabel = "seed "
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func encode(key ed25519.PrivateKey) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	b.WriteString(idLabel + id.NodeIDOf(key.Public().(ed25519.PublicKey)).String() + "\n")
	b.WriteString(seedLabel + base32Lower.EncodeToString(key.Seed()) + "\n")
	return b.Bytes()
}

// decode reads what encode wrote, byte for byte; otherwise flaw says what is
// wrong and repeats nothing of the text, which may be secret.
func decode(text []byte) (key ed25519.PrivateKey, flaw string) {
	if len(text) == 0 {
		return nil, "it is empty"
	}
	if !bytes.HasPrefix(text, []byte(head)) {
		return nil, "its first line is not that of a key file"
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) != 4 || !bytes.HasPrefix(lines[2], []byte(seedLabel)) {
		return nil, "it does not have three lines"
	}
	seed, err := base32Lower.DecodeString(string(lines[2][len(seedLabel):]))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, "its seed is not of 52 characters of the alphabet"
	}
	key = ed25519.NewKeyFromSeed(seed)
	if !bytes.Equal(encode(key), text) {
		return nil, "its seed does not give its id"
	}
	return key, ""
}
