package preset

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"muster/internal/core/probe"
	"muster/internal/fault"
	"muster/internal/wire"
)

// A probe's file, numbers little-endian:
//
//	magic 8 │ version 4 │ size of facts 4 │ digest 32 │ 0 16      header
//	rows of the short and the long prompt, at each inner border
//	logits of the short and the long prompt
//	facts, JSON
//
// The digest is SHA-256 over what follows the header.
const (
	probeMagic   = "MUSTRPRB"
	probeVersion = 1
	headSize     = 64
	digestAt     = 16
	mostFacts    = 16 << 20
)

// Facts are what a probe's file holds besides rows and logits.
type Facts struct {
	Revision   string         `json:"revision"` // of the model
	Recipe     wire.Recipe    `json:"recipe"`   // by which the reference was computed
	Width      int            `json:"width"`    // floats a row
	Vocabulary int            `json:"vocabulary"`
	Borders    []int          `json:"borders"` // layers between parts, from 0 to the last
	Prompts    []probe.Prompt `json:"prompts"` // Short, Long
	Share      float64        `json:"share"`   // by which drifts were compared, as of probe.Tolerance
	Drifts     []probe.Drift  `json:"drifts"`  // of each part
}

// Probe is a model's reference, read from where it lies as it is asked for.
type Probe struct {
	Facts
	Digest string // SHA-256 of what follows the header, hexadecimal
	in     io.ReaderAt
	size   int64
	path   string
	file   *os.File // nil where the bytes are not the probe's to close
}

// Close ends the use of the probe's file.
func (p *Probe) Close() {
	if p.file != nil {
		_ = p.file.Close() // it was only read
	}
}

// ReadProbe reads a probe of size bytes and compares all of it with its digest;
// path stands for it in faults. The probe reads on from in. Faults:
// preset.file_corrupt, preset.format_unknown.
func ReadProbe(in io.ReaderAt, size int64, path string) (*Probe, error) {
	corrupt := func(format string, args ...any) (*Probe, error) {
		return nil, fault.New(fault.PresetFileCorrupt, component, "path", path, "what", fmt.Sprintf(format, args...))
	}
	head := make([]byte, headSize)
	if n, err := in.ReadAt(head, 0); n < headSize {
		return corrupt("it ends in its header (%v)", err)
	}
	if string(head[:len(probeMagic)]) != probeMagic {
		return corrupt("it is no probe")
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != probeVersion {
		return nil, fault.New(fault.PresetFormatUnknown, component, "path", path, "version", v)
	}
	length := int64(binary.LittleEndian.Uint32(head[12:]))
	if length > mostFacts || length > size-headSize || !bytes.Equal(head[digestAt+sha256.Size:], make([]byte, 16)) {
		return corrupt("its header is torn")
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(in, headSize, size-headSize)); err != nil {
		return corrupt("it cannot be read: %v", err)
	}
	if !bytes.Equal(h.Sum(nil), head[digestAt:digestAt+sha256.Size]) {
		return corrupt("its content is not that of its digest")
	}
	p := &Probe{in: in, size: size, path: path, Digest: fmt.Sprintf("%x", h.Sum(nil))}
	text := make([]byte, length)
	if _, err := in.ReadAt(text, size-length); err != nil && !errors.Is(err, io.EOF) {
		return corrupt("it cannot be read: %v", err)
	}
	if err := strict(text, &p.Facts); err != nil {
		return corrupt("its facts are not readable: %v", err)
	}
	if what := p.check(); what != "" {
		return corrupt("%s", what)
	}
	if want := headSize + p.bodySize() + length; want != size {
		return corrupt("it has %d bytes, %d belong there", size, want)
	}
	return p, nil
}

// Bounds of a probe's facts, far above any model's, so that sizes made of them
// stay small numbers.
const (
	mostWidth   = 1 << 24
	mostTokens  = 1 << 20
	mostBorders = 1 << 12
)

// check says what is wrong with the facts, "" where nothing is.
func (f *Facts) check() string {
	switch n := len(f.Borders); {
	case f.Width < 1 || f.Width > mostWidth || f.Vocabulary < 1 || f.Vocabulary > math.MaxInt32:
		return fmt.Sprintf("it says a width of %d and %d tokens", f.Width, f.Vocabulary)
	case !(f.Share > 0 && f.Share <= 1):
		return fmt.Sprintf("it holds %g of its rows", f.Share)
	case n < 2 || n > mostBorders || f.Borders[0] != 0 || len(f.Drifts) != n-1:
		return fmt.Sprintf("it has %d borders and %d drifts", n, len(f.Drifts))
	case len(f.Prompts) != 2 || f.Prompts[0].Name != probe.Short || f.Prompts[1].Name != probe.Long:
		return fmt.Sprintf("it has %d prompts, a short and a long one belong there", len(f.Prompts))
	}
	for i, b := range f.Borders[1:] {
		if b <= f.Borders[i] {
			return "its borders do not rise"
		}
	}
	for _, d := range f.Drifts {
		if !sound(d.Local) || !sound(d.Carried) {
			return "its drifts cannot be"
		}
	}
	for _, p := range f.Prompts {
		if len(p.Tokens) == 0 || len(p.Tokens) > mostTokens {
			return fmt.Sprintf("its %s prompt has %d tokens", p.Name, len(p.Tokens))
		}
		for _, id := range p.Tokens {
			if id < 0 || int(id) >= f.Vocabulary {
				return fmt.Sprintf("its %s prompt holds the token %d", p.Name, id)
			}
		}
	}
	return ""
}

func sound(d probe.Difference) bool {
	return d.Relative >= 0 && d.Cosine >= -1 && d.Cosine <= 1 // JSON knows no infinities
}

// Layers is how many the model has.
func (f *Facts) Layers() int { return f.Borders[len(f.Borders)-1] }

// borderSize is the bytes of one border: the rows of both prompts.
func (f *Facts) borderSize() int64 {
	return int64(len(f.Prompts[0].Tokens)+len(f.Prompts[1].Tokens)) * rowSize(f.Width)
}

// bodySize is the bytes of rows and logits.
func (f *Facts) bodySize() int64 {
	return int64(len(f.Borders)-2)*f.borderSize() + int64(len(f.Prompts))*rowSize(f.Vocabulary)
}

// Fits reports whether what is computed by a recipe can be held against the
// reference: context, slots, chunk and threads change less than a tolerance
// allows, and the short prompt must find room.
func (p *Probe) Fits(r wire.Recipe) bool {
	own := p.Recipe
	return r.KVType == own.KVType && r.FlashAttention == own.FlashAttention && r.Repack == own.Repack &&
		r.Room() >= len(p.Prompts[0].Tokens)
}

// Source is the probe's file, and its bytes.
func (p *Probe) Source() (io.ReaderAt, int64) { return p.in, p.size }

// Tolerance is how near to the reference layers [start,end) have to come; it
// reads nothing. Fault: preset.layers_unmeasured.
func (p *Probe) Tolerance(layers [2]int) (probe.Tolerance, error) {
	begin, end := slices.Index(p.Borders, layers[0]), slices.Index(p.Borders, layers[1])
	if begin < 0 || end <= begin {
		return probe.Tolerance{}, fault.New(fault.PresetLayersUnmeasured, component, "layers", fmt.Sprintf("%d:%d", layers[0], layers[1]), "borders", p.Borders)
	}
	return probe.Tolerate(p.Drifts[:end], begin, p.Share, end == len(p.Borders)-1), nil
}

// Reference gives what a doctor of the layers [start,end) compares with. Faults:
// preset.layers_unmeasured where the model cannot be cut there,
// preset.file_corrupt.
func (p *Probe) Reference(layers [2]int) (*probe.Reference, error) {
	tolerance, err := p.Tolerance(layers)
	if err != nil {
		return nil, err
	}
	begin, end := slices.Index(p.Borders, layers[0]), slices.Index(p.Borders, layers[1])
	r := &probe.Reference{
		Revision: p.Revision, Layers: layers, Width: p.Width, Vocabulary: p.Vocabulary, Tolerance: tolerance,
	}
	for i, prompt := range p.Prompts {
		g := probe.Passage{Prompt: prompt}
		var err error
		if begin > 0 {
			g.In, err = p.rows(begin, i)
		}
		if err == nil && end < len(p.Borders)-1 {
			g.Out, err = p.rows(end, i)
		} else if err == nil {
			at := headSize + int64(len(p.Borders)-2)*p.borderSize() + int64(i)*rowSize(p.Vocabulary)
			g.Logits, err = p.read(at, 1, p.Vocabulary)
		}
		if err != nil {
			return nil, err
		}
		r.Passages = append(r.Passages, g)
	}
	return r, nil
}

// rows are those of a prompt at an inner border.
func (p *Probe) rows(border, prompt int) ([]float32, error) {
	at := headSize + int64(border-1)*p.borderSize()
	if prompt > 0 {
		at += int64(len(p.Prompts[0].Tokens)) * rowSize(p.Width)
	}
	return p.read(at, len(p.Prompts[prompt].Tokens), p.Width)
}

func (p *Probe) read(at int64, count, width int) ([]float32, error) {
	size := int(rowSize(width))
	b := make([]byte, count*size)
	_, err := p.in.ReadAt(b, at)
	if errors.Is(err, io.EOF) { // its facts follow: it was cut since it was verified
		err = io.ErrUnexpectedEOF
	}
	rows := make([]float32, count*width)
	for i := 0; i < count && err == nil; i++ {
		err = readRow(rows[i*width:(i+1)*width], b[i*size:])
	}
	if err != nil {
		return nil, fault.New(fault.PresetFileCorrupt, component, "path", p.path, "what", err)
	}
	return rows, nil
}

// strict reads one JSON object that holds nothing unknown.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("something follows it")
	}
	return nil
}
