package weights

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	"muster/internal/gguf"
)

// settled is how long a file must have been left alone for its times to tell
// one content from another: a second change may fall into the same tick of a
// file system's clock.
const settled = 2 * time.Second

// Manifest returns the digests of a model. A named cache keeps them by
// identity, size and times of the model's files, so that only a model that is
// new or has changed is read. Slices are verified against them in any case.
func (c *Cache) Manifest(ctx context.Context, f *gguf.File, progress Progress) (*gguf.Manifest, error) {
	path := c.manifestPath(f)
	if path != "" {
		if man := readManifest(path, f); man != nil {
			return man, nil
		}
	}
	man, err := gguf.BuildManifest(ctx, f, progress)
	if err != nil || path == "" || c.manifestPath(f) != path {
		return man, err
	}
	return man, c.keep(path, man)
}

// manifestPath is where the manifest of a model's files is kept; "" where
// there is no such place, or the files cannot be told from others.
func (c *Cache) manifestPath(f *gguf.File) string {
	if c.dir == "" {
		return ""
	}
	h := sha256.New()
	for _, p := range f.Parts {
		if p.File == nil {
			return ""
		}
		info, err := p.File.Stat()
		if err != nil {
			return ""
		}
		who, changed, ok := identity(info)
		if !ok || c.now().Sub(changed) < settled {
			return ""
		}
		_, _ = io.WriteString(h, who)
	}
	return filepath.Join(c.dir, manifestsFolder, hex.EncodeToString(h.Sum(nil))+".json")
}

// readManifest returns nil where none is kept, or one that is damaged.
func readManifest(path string, f *gguf.File) *gguf.Manifest {
	kept, err := openRegular(path)
	if err != nil {
		return nil
	}
	defer kept.Close()
	b, err := io.ReadAll(kept)
	if err != nil {
		return nil
	}
	man := new(gguf.Manifest)
	if json.Unmarshal(b, man) != nil || !man.Describes(f) {
		return nil
	}
	return man
}

func (c *Cache) keep(path string, man *gguf.Manifest) error {
	b, err := json.Marshal(man)
	if err != nil {
		return unwritten(filepath.Dir(path), 0, err)
	}
	file, err := c.place(path, int64(len(b)), func(w io.Writer) error { _, err := w.Write(b); return err })
	if err != nil {
		return err
	}
	return file.Close()
}
