package preset

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"slices"

	"muster/internal/fault"
	"muster/internal/gguf"
)

// FrameDigest is a digest of what a model's files hold besides its tensors:
// headers and padding. A manifest, which is the same for every layout of a
// model, does not see all of that. Fault: gguf.file_unreadable.
func FrameDigest(f *gguf.File) (string, error) {
	h := sha256.New()
	for i, part := range f.Parts {
		at := int64(0)
		for _, t := range append(tensorsOf(f, i), gguf.Tensor{Offset: part.Size}) {
			if _, err := io.Copy(h, f.Section(i, at, max(0, t.Offset-at))); err != nil {
				return "", fault.New(fault.GGUFFileUnreadable, component, "path", part.Path).Because(err)
			}
			at = t.Offset + t.Size
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// tensorsOf are the tensors of a part in the order in which they lie there.
func tensorsOf(f *gguf.File, part int) []gguf.Tensor {
	own := slices.DeleteFunc(slices.Clone(f.Tensors), func(t gguf.Tensor) bool { return t.Part != part })
	slices.SortFunc(own, func(a, b gguf.Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	return own
}
