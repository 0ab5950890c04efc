package admit

import (
	"encoding/hex"
	"errors"
)

// Digest is a SHA-256. Its text is 64 lower-case hex digits; the zero value
// means none and is the empty text.
type Digest [32]byte

// Challenge is 32 random bytes that a tracker gives once. Its text is as a
// Digest's.
type Challenge [32]byte

// ParseDigest reads 64 lower-case hex digits that are not all zero.
func ParseDigest(text string) (d Digest, err error) {
	err = parseHex(text, (*[32]byte)(&d))
	return d, err
}

// ParseChallenge reads 64 lower-case hex digits that are not all zero.
func ParseChallenge(text string) (c Challenge, err error) {
	err = parseHex(text, (*[32]byte)(&c))
	return c, err
}

// IsZero reports whether the digest is none.
func (d Digest) IsZero() bool { return d == Digest{} }

func (d Digest) String() string { return hexOf(d, "none") }

// MarshalText writes the digest's hex digits, nothing for none.
func (d Digest) MarshalText() ([]byte, error) { return []byte(hexOf(d, "")), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *Digest) UnmarshalText(text []byte) error { return unmarshalHex(text, (*[32]byte)(d)) }

// IsZero reports whether the challenge is none.
func (c Challenge) IsZero() bool { return c == Challenge{} }

func (c Challenge) String() string { return hexOf(c, "none") }

// MarshalText writes the challenge's hex digits, nothing for none.
func (c Challenge) MarshalText() ([]byte, error) { return []byte(hexOf(c, "")), nil }

// UnmarshalText reads what MarshalText wrote.
func (c *Challenge) UnmarshalText(text []byte) error { return unmarshalHex(text, (*[32]byte)(c)) }

func hexOf(b [32]byte, none string) string {
	if b == [32]byte{} {
		return none
	}
	return hex.EncodeToString(b[:])
}

func unmarshalHex(text []byte, into *[32]byte) error {
	if len(text) == 0 {
		*into = [32]byte{}
		return nil
	}
	return parseHex(string(text), into)
}

var errHex = errors.New("it must be 64 digits of 0-9 and a-f that are not all zero")

func parseHex(text string, into *[32]byte) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(into) || hex.EncodeToString(b) != text || [32]byte(b) == [32]byte{} {
		return errHex
	}
	copy(into[:], b)
	return nil
}
