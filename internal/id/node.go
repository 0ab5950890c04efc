package id

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base32"
	"fmt"
)

// NodeID is a node's ed25519 public key.
type NodeID [32]byte

const (
	nodeIDLength  = 52
	shortIDLength = 8
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NodeIDOf is the id of the node that holds the private half of key; none
// where key is not an ed25519 public key.
func NodeIDOf(key ed25519.PublicKey) (n NodeID) {
	if len(key) == len(n) {
		copy(n[:], key)
	}
	return n
}

// ParseNodeID reads what String wrote: exactly 52 characters of a-z and 2-7,
// of which the last carries one bit.
func ParseNodeID(text string) (n NodeID, err error) {
	refuse := func(why string) (NodeID, error) {
		return NodeID{}, &ParseError{Kind: "node id", Text: text, Why: why}
	}
	if len(text) != nodeIDLength {
		return refuse(fmt.Sprintf("it has %d characters, a node id has %d", len(text), nodeIDLength))
	}
	// The decoder skips line breaks and ignores the four bits beyond the 256;
	// a text that says them is another spelling of the same key.
	got, err := base32Lower.Decode(n[:], []byte(text))
	switch {
	case err != nil || got != len(n):
		return refuse("it must be of the characters a-z and 2-7")
	case base32Lower.EncodeToString(n[:]) != text:
		return refuse("its last character carries bits that no key has")
	case n.IsZero():
		return refuse("it is all zero, which means none")
	}
	return n, nil
}

// String is the id's 52 lower-case base32 characters.
func (n NodeID) String() string {
	if n.IsZero() {
		return none
	}
	return base32Lower.EncodeToString(n[:])
}

// Short is the id's first 8 characters, for people.
func (n NodeID) Short() string {
	if n.IsZero() {
		return none
	}
	return base32Lower.EncodeToString(n[:5])[:shortIDLength]
}

// IsZero reports whether the id is none.
func (n NodeID) IsZero() bool { return n == NodeID{} }

// Compare orders ids by their bytes: -1, 0 or 1.
func (n NodeID) Compare(other NodeID) int { return bytes.Compare(n[:], other[:]) }

// Key is the ed25519 public key that the id is.
func (n NodeID) Key() ed25519.PublicKey { return ed25519.PublicKey(n[:]) }

// MarshalText writes the id as String does, none as the empty text.
func (n NodeID) MarshalText() ([]byte, error) {
	if n.IsZero() {
		return nil, nil
	}
	return []byte(n.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (n *NodeID) UnmarshalText(text []byte) error { return unmarshal(text, n, ParseNodeID) }
