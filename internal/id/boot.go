package id

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// BootID is one life of a node process: 128 random bits made at its start.
type BootID [16]byte

// NewBootID reads a boot id from random, such as crypto/rand.Reader.
func NewBootID(random io.Reader) (b BootID, err error) {
	for err == nil && b.IsZero() {
		_, err = io.ReadFull(random, b[:])
	}
	return b, err
}

// ParseBootID reads what String wrote: exactly 32 lower-case hex digits.
func ParseBootID(text string) (b BootID, err error) {
	if err := parseHex("boot id", text, b[:]); err != nil {
		return BootID{}, err
	}
	return b, nil
}

// String is the id's 32 lower-case hex digits.
func (b BootID) String() string {
	if b.IsZero() {
		return none
	}
	return hex.EncodeToString(b[:])
}

// Short is the id's first 8 digits, for people.
func (b BootID) Short() string {
	if b.IsZero() {
		return none
	}
	return hex.EncodeToString(b[:4])
}

// IsZero reports whether the id is none.
func (b BootID) IsZero() bool { return b == BootID{} }

// MarshalText writes the id as String does, none as the empty text.
func (b BootID) MarshalText() ([]byte, error) {
	if b.IsZero() {
		return nil, nil
	}
	return []byte(b.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (b *BootID) UnmarshalText(text []byte) error { return unmarshal(text, b, ParseBootID) }

// Nonce is a number that is asked for once and answered once. Its text is hex,
// since a JSON number of 64 bits does not survive every reader.
type Nonce uint64

// NewNonce reads a nonce from random, such as crypto/rand.Reader.
func NewNonce(random io.Reader) (n Nonce, err error) {
	var b [8]byte
	for err == nil && n.IsZero() {
		_, err = io.ReadFull(random, b[:])
		n = Nonce(binary.BigEndian.Uint64(b[:]))
	}
	return n, err
}

// ParseNonce reads what String wrote: exactly 16 lower-case hex digits.
func ParseNonce(text string) (Nonce, error) {
	var b [8]byte
	if err := parseHex("nonce", text, b[:]); err != nil {
		return 0, err
	}
	return Nonce(binary.BigEndian.Uint64(b[:])), nil
}

// String is the nonce's 16 lower-case hex digits.
func (n Nonce) String() string {
	if n.IsZero() {
		return none
	}
	return fmt.Sprintf("%016x", uint64(n))
}

// IsZero reports whether the nonce is none.
func (n Nonce) IsZero() bool { return n == 0 }

// MarshalText writes the nonce as String does, none as the empty text.
func (n Nonce) MarshalText() ([]byte, error) {
	if n.IsZero() {
		return nil, nil
	}
	return []byte(n.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (n *Nonce) UnmarshalText(text []byte) error { return unmarshal(text, n, ParseNonce) }

// parseHex fills into from lower-case hex of exactly its length; all zero is
// refused, since it means none.
func parseHex(kind, text string, into []byte) error {
	refuse := func(why string) error { return &ParseError{Kind: kind, Text: text, Why: why} }
	if want := hex.EncodedLen(len(into)); len(text) != want {
		return refuse(fmt.Sprintf("it has %d characters, a %s has %d", len(text), kind, want))
	}
	if _, err := hex.Decode(into, []byte(text)); err != nil || hex.EncodeToString(into) != text {
		return refuse("it must be of the characters 0-9 and a-f")
	}
	for _, b := range into {
		if b != 0 {
			return nil
		}
	}
	return refuse("it is all zero, which means none")
}
