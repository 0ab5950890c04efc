package wire

import (
	"bytes"
	"errors"
	"testing"

	"muster/internal/fault"
)

// framed reads b as one who passes records on does.
func framed(b []byte, lim Limits) (f Frame, err error) {
	if len(b) < HeaderSize {
		return f, refused("it ends inside its header")
	}
	if err = f.Begin(b[:HeaderSize], lim); err != nil {
		return f, err
	}
	if len(b) < f.Head {
		return f, refused("it ends inside its table")
	}
	if err = f.Judge(b[:f.Head], lim); err == nil && len(b) < f.Size() {
		err = refused("it ends inside its payload")
	}
	return f, err
}

func TestAFrameSaysWhereARecordEnds(t *testing.T) {
	for _, r := range samples() {
		b := encoded(t, r)
		kept := bytes.Clone(b)
		f, err := framed(b, wide)
		if err != nil || f.Size() != len(b) || f.Head != headLength(r) {
			t.Errorf("kind %d: %d + %d of %d bytes, %v", r.Kind, f.Head, f.Extent, len(b), err)
		}
		if f.ID != r.ID || f.Sequence != r.Sequence || f.Kind != r.Kind {
			t.Errorf("kind %d: it is told as %+v", r.Kind, f)
		}
		if !bytes.Equal(b, kept) {
			t.Errorf("kind %d: the record was changed by looking", r.Kind)
		}
	}
}

// A frame lets nothing pass that a reader of the record would refuse, but the
// inside of answers.
func TestAFrameRefusesWhatAReaderRefuses(t *testing.T) {
	for _, r := range samples() {
		good := encoded(t, r)
		for bit := range 8 * len(good) {
			b := bytes.Clone(good)
			b[bit/8] ^= 1 << (bit % 8)
			seal(b)
			sameJudgement(t, b)
		}
		for n := 1; n < len(good); n++ {
			sameJudgement(t, good[:n])
		}
	}
}

func sameJudgement(t testing.TB, b []byte) {
	t.Helper()
	var r Record
	from := bytes.NewReader(b)
	readErr := ReadRecord(from, wide, &r)
	f, err := framed(b, wide)
	switch {
	case err != nil && !errors.Is(err, fault.StageRecordInvalid):
		t.Fatalf("an error of another kind: %v", err)
	case readErr == nil && (err != nil || f.Size() != len(b)-from.Len()):
		t.Fatalf("a record of %d bytes is framed to %d, %v", len(b)-from.Len(), f.Size(), err)
	case readErr != nil && err == nil && f.Kind != KindAnswers:
		t.Fatalf("it passes, and a reader refuses it: %v", readErr)
	}
}

func FuzzFrame(f *testing.F) {
	for _, r := range samples() {
		f.Add(encoded(f, r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		sameJudgement(t, b)
		seal(b)
		sameJudgement(t, b)
	})
}
