package preset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/wire"
)

const (
	component     = "preset"
	formatVersion = 1
)

// Preset is what preset.json holds.
type Preset struct {
	Version        int         `json:"version"` // of this format
	Name           string      `json:"name"`
	Revision       string      `json:"revision"` // content digest of the model, as of gguf.Manifest
	Files          []string    `json:"files"`    // absolute paths, in their order; none for the built-in model
	Model          Shape       `json:"model"`
	Tokenizer      Tokenizer   `json:"tokenizer"`
	Recipe         wire.Recipe `json:"recipe"`          // default; the reference was computed by it
	FrameDigest    string      `json:"frame_digest"`    // of the files besides their tensors
	ManifestDigest string      `json:"manifest_digest"` // SHA-256 of manifest.json
	ProbeDigest    string      `json:"probe_digest"`    // of probe.bin, as it says of itself
}

// Shape is what a list of presets shows of a model.
type Shape struct {
	Architecture   string `json:"architecture"`
	Layers         int    `json:"layers"`
	Width          int    `json:"width"`           // floats a row
	ContextTrained int    `json:"context_trained"` // tokens; 0 where the model does not say
	Bytes          int64  `json:"bytes"`           // of all tensors
}

// Tokenizer is what a user of the model's tokens must agree on.
type Tokenizer struct {
	Kind           string `json:"kind"`            // tokenizer.ggml.model; "" for a model without a vocabulary
	Tokens         int    `json:"tokens"`          // rows of the embedding
	BOS            int64  `json:"bos"`             // id of the token that begins a text, -1 where the model names none
	EOS            int64  `json:"eos"`             // likewise, that ends it
	TemplateDigest string `json:"template_digest"` // SHA-256 of the chat template, "" where there is none
}

// Describe fills in what the files of a model hold besides its tensors. Fault:
// gguf.file_unreadable.
func Describe(name string, f *gguf.File, m *gguf.Model) (Preset, error) {
	p := Preset{
		Version: formatVersion, Name: name,
		Model: Shape{Architecture: m.Architecture, Layers: m.Layers, Width: m.Width, ContextTrained: m.ContextTrained, Bytes: f.Size()},
		Tokenizer: Tokenizer{
			Kind: f.String("tokenizer.ggml.model"), Tokens: m.Vocabulary,
			BOS: tokenOf(f, "bos"), EOS: tokenOf(f, "eos"),
		},
	}
	if t := f.String("tokenizer.chat_template"); t != "" {
		p.Tokenizer.TemplateDigest = digest([]byte(t))
	}
	for _, part := range f.Parts {
		path, err := filepath.Abs(part.Path)
		if err != nil {
			return p, fault.New(fault.GGUFFileUnreadable, component, "path", part.Path).Because(err)
		}
		p.Files = append(p.Files, path)
	}
	var err error
	p.FrameDigest, err = FrameDigest(f)
	return p, err
}

func tokenOf(f *gguf.File, which string) int64 {
	if id, ok := f.Uint("tokenizer.ggml." + which + "_token_id"); ok && id < 1<<31 {
		return int64(id)
	}
	return -1
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// IsName tells the name of a preset from the path of a file.
func IsName(model string) bool {
	_, err := os.Stat(model)
	return err != nil && !strings.ContainsAny(model, `/\`) && !strings.HasSuffix(model, ".gguf")
}

// CheckName refuses what cannot be the name of a preset: preset.name_invalid.
func CheckName(name string) error {
	if !nameShape.MatchString(name) {
		return fault.New(fault.PresetNameInvalid, component, "name", name)
	}
	return nil
}

var partSuffix = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// NameOf makes a name of a model's path; it may be one that CheckName refuses.
func NameOf(path string) string {
	stem := strings.ToLower(filepath.Base(path))
	stem = partSuffix.ReplaceAllString(strings.TrimSuffix(stem, ".gguf"), "")
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789._-", r) {
			return r
		}
		return '-'
	}, stem)
}

// otherVersion is what parsePreset says of a form that it does not read.
type otherVersion struct{ version int }

func (o *otherVersion) Error() string { return fmt.Sprintf("it is of version %d", o.version) }

// parsePreset reads the preset of that name.
func parsePreset(text []byte, name string) (*Preset, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err == nil && head.Version != formatVersion {
		return nil, &otherVersion{head.Version}
	}
	p := new(Preset)
	if err := strict(text, p); err != nil {
		return nil, err
	}
	if what := p.check(name); what != "" {
		return nil, errors.New(what)
	}
	return p, nil
}

// check says what is wrong with a preset, "" where nothing is.
func (p *Preset) check(name string) string {
	r := p.Recipe
	revision, err := hex.DecodeString(p.Revision)
	switch {
	case p.Name != name:
		return "it is that of another name"
	case err != nil || len(revision) != sha256.Size || len(p.Files) == 0:
		return "it names no model"
	case p.Model.Layers < 1 || p.Model.Width < 1 || p.Tokenizer.Tokens < 1:
		return "its model has no shape"
	case r.Context < 1 || r.Slots < 1 || r.Chunk < 1 || r.Chunk > r.Context:
		return "its recipe cannot be"
	}
	return ""
}
