package preset

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/process"
)

const (
	folderName   = "presets"
	modelsName   = "models"
	presetFile   = "preset.json"
	manifestFile = "manifest.json"
	probeFile    = "probe.bin"
	lockFile     = "lock"

	adding   = ".adding"
	removing = ".removing"

	mostPreset   = 1 << 20 // bytes
	mostManifest = 1 << 28
)

// Store is the folder of presets. Its methods may be called at once, also by
// several processes on one folder.
type Store struct{ dir string }

// Open names the presets of a data folder and sweeps what dead processes have
// left there. It makes nothing. Fault: preset.folder_unreadable.
func Open(data string) (*Store, error) {
	dir, err := filepath.Abs(filepath.Join(data, folderName))
	if err != nil {
		return nil, fault.New(fault.PresetFolderUnreadable, component, "path", data).Because(err)
	}
	s := &Store{dir: dir}
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		s.sweep(e.Name())
	}
	return s, nil
}

// ModelFolder is where the files of a preset lie that were fetched for it, in a
// folder of their own beside the presets.
func (s *Store) ModelFolder(name string) string {
	return filepath.Join(filepath.Dir(s.dir), modelsName, name)
}

func (s *Store) entries() ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.PresetFolderUnreadable, component, "path", s.dir).Because(err)
	}
	return entries, nil
}

// sweep removes a leftover unless its process lives. One that cannot be removed
// does no harm.
func (s *Store) sweep(entry string) {
	path := filepath.Join(s.dir, entry)
	switch {
	case !strings.HasPrefix(entry, "."):
	case strings.HasSuffix(entry, removing):
		_ = os.RemoveAll(path)
	case strings.HasSuffix(entry, adding):
		if l, _, err := process.Lock(filepath.Join(path, lockFile)); err == nil {
			_ = os.RemoveAll(path)
			process.Unlock(l)
		}
	}
}

// Listed is one preset, or why it cannot be read.
type Listed struct {
	Name   string       `json:"name"`
	Preset *Preset      `json:"preset,omitempty"`
	Fault  *fault.Fault `json:"fault,omitempty"`
}

// List gives all presets by name, without the built-in one. Fault:
// preset.folder_unreadable.
func (s *Store) List() ([]Listed, error) {
	entries, err := s.entries()
	if err != nil {
		return nil, err
	}
	all := []Listed{}
	for _, e := range entries {
		if name := e.Name(); e.IsDir() && CheckName(name) == nil {
			l := Listed{Name: name}
			if l.Preset, err = s.Get(name); err != nil {
				l.Fault = fault.From(err)
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// Get reads what a preset is. Faults: preset.name_invalid, preset.name_unknown,
// preset.file_corrupt, preset.format_unknown, preset.folder_unreadable.
func (s *Store) Get(name string) (*Preset, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	text, err := s.read(name, presetFile, mostPreset)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Stat(filepath.Join(s.dir, name)); there != nil {
			return nil, fault.New(fault.PresetNameUnknown, component, "name", name, "known", s.known())
		}
	}
	if err != nil {
		return nil, s.unread(name, presetFile, err)
	}
	p, err := parsePreset(text, name)
	var other *otherVersion
	switch {
	case errors.As(err, &other):
		return nil, fault.New(fault.PresetFormatUnknown, component, "path", s.path(name, presetFile), "version", other.version)
	case err != nil:
		return nil, s.corrupt(name, presetFile, err.Error())
	}
	return p, nil
}

// Manifest reads the digests of a preset's tensors. Faults: preset.file_corrupt,
// preset.revision_mismatched, preset.folder_unreadable.
func (s *Store) Manifest(p *Preset) (*gguf.Manifest, error) {
	text, err := s.read(p.Name, manifestFile, mostManifest)
	if err != nil {
		return nil, s.unread(p.Name, manifestFile, err)
	}
	if digest(text) != p.ManifestDigest {
		return nil, s.corrupt(p.Name, manifestFile, "its content is not that of the digest in "+presetFile)
	}
	man := new(gguf.Manifest)
	if err := strict(text, man); err != nil {
		return nil, s.corrupt(p.Name, manifestFile, err.Error())
	}
	if man.Revision != p.Revision {
		return nil, s.foreign(p, manifestFile, man.Revision)
	}
	return man, nil
}

// Probe opens a preset's reference, which is read from its file until Close.
// Faults: preset.file_corrupt, preset.format_unknown,
// preset.revision_mismatched, preset.folder_unreadable.
func (s *Store) Probe(p *Preset) (*Probe, error) {
	path := s.path(p.Name, probeFile)
	info, err := os.Stat(path) // opening a pipe would wait for who writes
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no plain file")
	}
	if err != nil {
		return nil, s.unread(p.Name, probeFile, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, s.unread(p.Name, probeFile, err)
	}
	probe, err := s.readProbe(p, f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	probe.file = f
	return probe, nil
}

func (s *Store) readProbe(p *Preset, f *os.File) (*Probe, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no plain file")
	}
	if err != nil {
		return nil, s.unread(p.Name, probeFile, err)
	}
	probe, err := ReadProbe(f, info.Size(), f.Name())
	switch {
	case err != nil:
		return nil, err
	case probe.Revision != p.Revision:
		return nil, s.foreign(p, probeFile, probe.Revision)
	case probe.Digest != p.ProbeDigest:
		return nil, s.corrupt(p.Name, probeFile, "it is another probe than "+presetFile+" was written with")
	case probe.Layers() != p.Model.Layers || probe.Width != p.Model.Width || probe.Vocabulary != p.Tokenizer.Tokens:
		return nil, s.corrupt(p.Name, probeFile, "it is of a model of another shape")
	}
	return probe, nil
}

func (s *Store) path(name, file string) string { return filepath.Join(s.dir, name, file) }

// read reads a small file of a preset.
func (s *Store) read(name, file string, most int64) ([]byte, error) {
	path := s.path(name, file)
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, errors.New("it is no plain file, or far too large")
	}
	return os.ReadFile(path)
}

func (s *Store) known() string {
	names := []string{demo.Name}
	entries, _ := s.entries()
	for _, e := range entries {
		if e.IsDir() && CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (s *Store) corrupt(name, file, what string) error {
	return fault.New(fault.PresetFileCorrupt, component, "path", s.path(name, file), "what", what)
}

func (s *Store) unread(name, file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return s.corrupt(name, file, "it is missing")
	}
	return fault.New(fault.PresetFolderUnreadable, component, "path", s.path(name, file)).Because(err)
}

func (s *Store) foreign(p *Preset, file, revision string) error {
	return fault.New(fault.PresetRevisionMismatched, component, "path", s.path(p.Name, file), "got", revision, "want", p.Revision)
}
