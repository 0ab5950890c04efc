package id

import (
	"io"

	"github.com/google/uuid"
)

// RunID is a run: a UUID version 7, so that ids sort by the time they were
// made, as text and as bytes. Nothing decides by that time.
type RunID [16]byte

// EdgeID is an edge of a run: a UUID version 7.
type EdgeID [16]byte

// NewRunID makes a run id of now and of random, such as crypto/rand.Reader.
func NewRunID(random io.Reader) (RunID, error) {
	u, err := uuid.NewV7FromReader(random)
	return RunID(u), err
}

// NewEdgeID makes an edge id of now and of random, such as crypto/rand.Reader.
func NewEdgeID(random io.Reader) (EdgeID, error) {
	u, err := uuid.NewV7FromReader(random)
	return EdgeID(u), err
}

// ParseRunID reads what String wrote: a UUID of version 7 in its lower-case
// form with dashes.
func ParseRunID(text string) (RunID, error) {
	u, err := parseUUID("run id", text)
	return RunID(u), err
}

// ParseEdgeID reads what String wrote: a UUID of version 7 in its lower-case
// form with dashes.
func ParseEdgeID(text string) (EdgeID, error) {
	u, err := parseUUID("edge id", text)
	return EdgeID(u), err
}

// String is the UUID's lower-case form with dashes.
func (r RunID) String() string { return uuidString(r) }

// Short is the last 8 digits, for people: the first ones are time, and alike
// in runs made soon after one another.
func (r RunID) Short() string { return uuidShort(r) }

// IsZero reports whether the id is none.
func (r RunID) IsZero() bool { return r == RunID{} }

// MarshalText writes the id as String does, none as the empty text.
func (r RunID) MarshalText() ([]byte, error) { return uuidText(r), nil }

// UnmarshalText reads what MarshalText wrote.
func (r *RunID) UnmarshalText(text []byte) error { return unmarshal(text, r, ParseRunID) }

// String is the UUID's lower-case form with dashes.
func (e EdgeID) String() string { return uuidString(e) }

// Short is the last 8 digits, for people.
func (e EdgeID) Short() string { return uuidShort(e) }

// IsZero reports whether the id is none.
func (e EdgeID) IsZero() bool { return e == EdgeID{} }

// MarshalText writes the id as String does, none as the empty text.
func (e EdgeID) MarshalText() ([]byte, error) { return uuidText(e), nil }

// UnmarshalText reads what MarshalText wrote.
func (e *EdgeID) UnmarshalText(text []byte) error { return unmarshal(text, e, ParseEdgeID) }

func uuidString(b [16]byte) string {
	if b == uuid.Nil {
		return none
	}
	return uuid.UUID(b).String()
}

func uuidShort(b [16]byte) string {
	s := uuidString(b)
	return s[max(0, len(s)-8):]
}

func uuidText(b [16]byte) []byte {
	if b == uuid.Nil {
		return nil
	}
	return []byte(uuid.UUID(b).String())
}

func parseUUID(kind, text string) (uuid.UUID, error) {
	refuse := func(why string) (uuid.UUID, error) {
		return uuid.Nil, &ParseError{Kind: kind, Text: text, Why: why}
	}
	u, err := uuid.Parse(text)
	switch {
	// The library reads braces, urn: and upper case too.
	case err != nil || u.String() != text:
		return refuse("it must have the form 0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b")
	case u.Version() != 7 || u.Variant() != uuid.RFC4122:
		return refuse("it is not a UUID of version 7")
	}
	return u, nil
}
