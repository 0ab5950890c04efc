package gguf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"muster/internal/fault"
)

// sliceFormat is part of every key: it rises when the bytes that a plan
// yields change their meaning.
const sliceFormat = "muster slice 1"

// ByteRange is Size bytes at Offset of a part of the model.
type ByteRange struct {
	Part   int   `json:"part"`
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

// smallGap is how many bytes between two tensors are rather fetched than
// skipped with a request of its own: more than any padding.
const smallGap = 4 << 10

// Ranges returns what must be fetched of the model for the slice, in the
// order of parts and offsets, neighbours joined.
func (p *SlicePlan) Ranges() []ByteRange {
	var all []ByteRange
	for _, t := range p.Tensors {
		if t.Source != "" {
			all = append(all, ByteRange{t.Part, t.SourceOffset, t.Size})
		}
	}
	slices.SortFunc(all, func(a, b ByteRange) int {
		if a.Part != b.Part {
			return a.Part - b.Part
		}
		return int(min(1, max(-1, a.Offset-b.Offset)))
	})
	var merged []ByteRange
	for _, r := range all {
		if n := len(merged); n > 0 && merged[n-1].Part == r.Part && r.Offset-merged[n-1].Offset-merged[n-1].Size <= smallGap {
			merged[n-1].Size = max(merged[n-1].Size, r.Offset+r.Size-merged[n-1].Offset)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// Key is the content address of the slice: two slices with the same key have
// the same bytes.
func (p *SlicePlan) Key(man *Manifest) string {
	h := sha256.New()
	hashTexts(h, sliceFormat, string(p.Header))
	for _, t := range p.Tensors {
		hashTexts(h, p.digest(t, man))
	}
	return sum(h)
}

// digest is what the bytes of a tensor of the slice must hash to; "" where the
// manifest does not know it, which no bytes match.
func (p *SlicePlan) digest(t SliceTensor, man *Manifest) string {
	if t.Source == "" {
		h := sha256.New()
		_, _ = h.Write(t.Literal)
		return sum(h)
	}
	d, _ := man.Tensor(t.Source)
	return d.Digest
}

// Write writes the slice to w, reading the tensors from f and comparing each
// with the manifest: gguf.data_changed where one differs, after some of its
// bytes have been written. progress, which may be nil, is told bytes. Errors
// of w are returned as they are.
func (p *SlicePlan) Write(ctx context.Context, w io.Writer, f *File, man *Manifest, progress func(done, total int64)) error {
	out := &counter{w: w}
	m := newMeter(progress, p.Size)
	if _, err := out.Write(p.Header); err != nil {
		return err
	}
	m.add(len(p.Header))
	for _, t := range p.Tensors {
		if err := p.writeTensor(ctx, out, f, man, t, m); err != nil {
			return err
		}
		before := out.n
		if err := out.pad(); err != nil {
			return err
		}
		m.add(int(out.n - before))
	}
	return nil
}

func (p *SlicePlan) writeTensor(ctx context.Context, out io.Writer, f *File, man *Manifest, t SliceTensor, m *meter) error {
	if t.Source == "" {
		_, err := out.Write(t.Literal)
		m.add(len(t.Literal))
		return err
	}
	h := sha256.New()
	if err := f.copyTensor(ctx, io.MultiWriter(out, h), t.Part, t.SourceOffset, t.Size, m); err != nil {
		return err
	}
	if sum(h) != p.digest(t, man) {
		return fault.New(fault.GGUFDataChanged, component, "path", f.Parts[t.Part].Path, "tensor", t.Source)
	}
	return nil
}

// Verify reads a slice of size bytes from r and compares it with the plan:
// header, padding and the digest of every tensor. The error says in words what
// differs; whoever owns the slice makes a fault of it. A read that fails is
// returned as a difference, with its cause.
func (p *SlicePlan) Verify(ctx context.Context, r io.ReaderAt, size int64, man *Manifest, progress func(done, total int64)) error {
	if size != p.Size {
		return fmt.Errorf("it has %d bytes of %d", size, p.Size)
	}
	m := newMeter(progress, p.Size)
	if err := sameBytes(r, 0, p.Header); err != nil {
		return fmt.Errorf("its header differs: %w", err)
	}
	m.add(len(p.Header))
	buf := make([]byte, min(p.Size, 1<<20))
	for _, t := range p.Tensors {
		if err := p.verifyTensor(ctx, r, t, man, buf, m); err != nil {
			return err
		}
	}
	return nil
}

func (p *SlicePlan) verifyTensor(ctx context.Context, r io.ReaderAt, t SliceTensor, man *Manifest, buf []byte, m *meter) error {
	h := sha256.New()
	if err := hashSection(ctx, h, io.NewSectionReader(r, t.Offset, t.Size), buf, m); err != nil {
		return err
	}
	if sum(h) != p.digest(t, man) {
		return fmt.Errorf("the tensor %s differs: %w", t.Name, errOtherBytes)
	}
	end := t.Offset + t.Size
	padding := make([]byte, pad(end, defaultAlign)-end)
	if err := sameBytes(r, end, padding); err != nil {
		return fmt.Errorf("the bytes after %s differ: %w", t.Name, err)
	}
	m.add(len(padding))
	return nil
}

// Differing counts the tensors of a slice of size bytes in r that are not the
// plan's, all of them where its size or its header is another: unlike Verify
// it reads on. The error is of a read that failed, or run.interrupted.
func (p *SlicePlan) Differing(ctx context.Context, r io.ReaderAt, size int64, man *Manifest) (int, error) {
	if size != p.Size {
		return max(1, len(p.Tensors)), nil
	}
	switch err := sameBytes(r, 0, p.Header); {
	case errors.Is(err, errOtherBytes):
		return max(1, len(p.Tensors)), nil
	case err != nil:
		return 0, err
	}
	buf, m, differing := make([]byte, min(p.Size, 1<<20)), newMeter(nil, p.Size), 0
	for _, t := range p.Tensors {
		switch err := p.verifyTensor(ctx, r, t, man, buf, m); {
		case errors.Is(err, errOtherBytes):
			differing++
		case err != nil:
			return 0, err
		}
	}
	return differing, nil
}

func hashSection(ctx context.Context, h io.Writer, in io.Reader, buf []byte, m *meter) error {
	for {
		if ctx.Err() != nil {
			return fault.New(fault.RunInterrupted, component).Because(context.Cause(ctx))
		}
		n, err := in.Read(buf)
		_, _ = h.Write(buf[:n])
		m.add(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it cannot be read: %w", err)
		}
	}
}

var errOtherBytes = errors.New("other bytes stand there")

func sameBytes(r io.ReaderAt, offset int64, want []byte) error {
	got := make([]byte, len(want))
	if n, err := r.ReadAt(got, offset); n < len(got) {
		return err
	}
	if !bytes.Equal(got, want) {
		return errOtherBytes
	}
	return nil
}
