package identity_test

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"muster/internal/fault"
	"muster/internal/identity"
)

func TestAKeyIsHandedOver(t *testing.T) {
	key, err := identity.Make()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := identity.Write(&b, key); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(b.Bytes())
	b.WriteString("what follows")
	in := bufio.NewReader(&b)
	if got, err := identity.Read(in); err != nil || !got.Equal(key) {
		t.Errorf("%v came, %v", got, err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "what follows" {
		t.Errorf("left was %q", rest)
	}
	wants(t, errOf(identity.Read(bytes.NewReader(whole[:len(whole)-1]))), fault.IdentityKeyUnreadable, "standard input")
	wants(t, errOf(identity.Read(bytes.NewReader(nil))), fault.IdentityKeyUnreadable, "standard input")
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-5] ^= 1
	wants(t, errOf(identity.Read(bytes.NewReader(flipped))), fault.IdentityKeyCorrupt, "standard input")
	wants(t, errOf(identity.Read(bytes.NewReader(bytes.Repeat([]byte{'x'}, 1<<20)))), fault.IdentityKeyCorrupt, "standard input")
}

func errOf(_ any, err error) error { return err }
