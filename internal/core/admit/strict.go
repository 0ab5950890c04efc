package admit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"muster/internal/fault"
)

// MostBytes is how long a signed report may be as JSON.
const MostBytes = 64 << 10

// Signature is an ed25519 signature. Its text is 128 lower-case hex digits.
type Signature [64]byte

// MarshalText writes the signature's hex digits.
func (s Signature) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Signature) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("a signature is %d hex digits", 2*len(s))
	}
	copy(s[:], b)
	return nil
}

// ParseSigned reads a signed report from JSON, in the one form of EncodeStrict.
// It does not verify it. Faults: admit.report_unreadable.
func ParseSigned(b []byte) (s Signed, refused *fault.Fault) {
	if len(b) > MostBytes {
		return Signed{}, unreadable(fmt.Errorf("it has %d bytes, at most %d are read", len(b), MostBytes))
	}
	if err := DecodeStrict(b, &s); err != nil {
		return Signed{}, unreadable(err)
	}
	return s, nil
}

func unreadable(err error) *fault.Fault {
	return fault.New(fault.AdmitReportUnreadable, component, "what", err)
}

// EncodeStrict writes v as JSON in the one form that DecodeStrict reads.
func EncodeStrict(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeStrict reads JSON into v, which points to a zero value, in one form
// alone: every field of v, once, in order, with each value in the spelling that
// EncodeStrict has for it. White space is free. So a field that is unknown,
// missing or repeated, or has its name in other letters, is an error, and so is
// whatever follows.
func DecodeStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	var got bytes.Buffer
	if err := json.Compact(&got, b); err != nil {
		return err
	}
	want, err := EncodeStrict(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(got.Bytes(), want) {
		return otherForm(want, got.Bytes())
	}
	return nil
}

// otherForm says where got leaves the form of want.
func otherForm(want, got []byte) error {
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	excerpt := func(b []byte) []byte { return b[max(0, min(at-20, len(b))):min(at+20, len(b))] }
	return fmt.Errorf("every field must be there once, in order: it has %q where %q is read", excerpt(got), excerpt(want))
}
