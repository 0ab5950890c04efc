package preset

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"muster/internal/core/probe"
	"muster/internal/fault"
)

// ProbeFile is where a probe is written to; its beginning is written last.
type ProbeFile interface {
	io.Writer
	io.WriterAt
}

// ProbeWriter writes a probe in the order in which it is computed, so that no
// more than one border's rows need be held.
type ProbeWriter struct {
	file  ProbeFile
	out   *bufio.Writer
	sum   hash.Hash
	facts Facts
	buf   []byte
}

// NewProbeWriter begins a probe in an empty file. The drifts of facts are
// added by Part.
func NewProbeWriter(file ProbeFile, facts Facts) (*ProbeWriter, error) {
	facts.Drifts = nil
	w := &ProbeWriter{file: file, sum: sha256.New(), facts: facts}
	if _, err := file.Write(make([]byte, headSize)); err != nil {
		return nil, err
	}
	w.out = bufio.NewWriterSize(io.MultiWriter(file, w.sum), 256<<10)
	return w, nil
}

// Facts are those given and added so far.
func (w *ProbeWriter) Facts() Facts { return w.facts }

// Part adds what was found at the end of the next part: the rows of both
// prompts, or of the last part their logits, and how far computations were
// apart. An error of the file is returned as it is.
func (w *ProbeWriter) Part(ends [][]float32, drift probe.Drift) error {
	width, last := w.facts.Width, len(w.facts.Drifts) == len(w.facts.Borders)-2
	if last {
		width = w.facts.Vocabulary
	}
	for i, end := range ends {
		want := len(w.facts.Prompts[i].Tokens) * width
		if last {
			want = width
		}
		if len(end) != want {
			return fault.New(fault.InternalUnexpected, component).Because(fmt.Errorf("part %d ends in %d floats, %d belong there", len(w.facts.Drifts), len(end), want))
		}
		for at := 0; at < len(end); at += width {
			w.buf = appendRow(w.buf[:0], end[at:at+width])
			if _, err := w.out.Write(w.buf); err != nil {
				return err
			}
		}
	}
	w.facts.Drifts = append(w.facts.Drifts, drift)
	return nil
}

// Finish writes facts and header, after the last part. An error of the file is
// returned as it is.
func (w *ProbeWriter) Finish() error {
	text, err := json.Marshal(w.facts)
	if err != nil {
		return err
	}
	if what := w.facts.check(); what != "" || len(text) > mostFacts {
		return fault.New(fault.InternalUnexpected, component).Because(fmt.Errorf("%s; facts of %d bytes", what, len(text)))
	}
	return w.seal(text)
}

func (w *ProbeWriter) seal(text []byte) error {
	if _, err := w.out.Write(text); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	head := append([]byte(probeMagic), make([]byte, headSize-len(probeMagic))...)
	binary.LittleEndian.PutUint32(head[8:], probeVersion)
	binary.LittleEndian.PutUint32(head[12:], uint32(len(text)))
	copy(head[digestAt:], w.sum.Sum(nil))
	_, err := w.file.WriteAt(head, 0)
	return err
}
