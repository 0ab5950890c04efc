package preset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"muster/internal/demo"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/process"
)

// Draft is a preset that is being made, in a folder of another name. Whoever
// has it calls Commit or Discard.
type Draft struct {
	store *Store
	name  string
	dir   string
	lock  *os.File
	probe *os.File
}

// Begin takes the right to make a preset of that name. Faults:
// preset.name_invalid, preset.name_taken, preset.folder_locked where somebody
// is making it, preset.folder_unwritable, preset.disk_full,
// platform.unsupported.
func (s *Store) Begin(name string) (*Draft, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	d := &Draft{store: s, name: name, dir: filepath.Join(s.dir, "."+name+adding)}
	if err := d.take(); err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		d.Discard()
		return nil, err
	}
	return d, nil
}

// take makes the folder and locks it. A sweep may remove it in between, after
// which it is made again.
func (d *Draft) take() error {
	const tries = 100
	path := filepath.Join(d.dir, lockFile)
	for range tries {
		if err := os.MkdirAll(d.dir, 0o700); err != nil {
			return d.unwritten(err)
		}
		l, holder, err := process.Lock(path)
		switch {
		case errors.Is(err, process.ErrLocked):
			return fault.New(fault.PresetFolderLocked, component, "name", d.name, "pid", holder)
		case errors.Is(err, errors.ErrUnsupported):
			_ = os.Remove(d.dir)
			return fault.New(fault.PlatformUnsupported, component, "what", "making presets", "platform", runtime.GOOS+"/"+runtime.GOARCH)
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return d.unwritten(err)
		}
		d.lock = l
		there, err := os.Stat(path)
		if here, statErr := l.Stat(); err == nil && statErr == nil && os.SameFile(there, here) {
			return nil
		}
		process.Unlock(l)
	}
	return d.unwritten(errors.New("folders made here are removed at once"))
}

// begin refuses a name in use and opens the probe's file, over what a dead
// process left of its own.
func (d *Draft) begin() error {
	if _, err := os.Lstat(filepath.Join(d.store.dir, d.name)); err == nil || d.name == demo.Name {
		return d.taken()
	}
	var err error
	if d.probe, err = os.OpenFile(filepath.Join(d.dir, probeFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return d.unwritten(err)
	}
	return nil
}

// Probe begins the preset's reference. What goes wrong with its file is
// preset.disk_full or preset.folder_unwritable.
func (d *Draft) Probe(facts Facts) (*ProbeWriter, error) { return NewProbeWriter(typed{d}, facts) }

// typed is the draft's probe file with typed faults.
type typed struct{ d *Draft }

func (t typed) Write(b []byte) (int, error) {
	n, err := t.d.probe.Write(b)
	return n, t.d.unwritten(err)
}

func (t typed) WriteAt(b []byte, at int64) (int, error) {
	n, err := t.d.probe.WriteAt(b, at)
	return n, t.d.unwritten(err)
}

// Commit gives the preset its name: p as Describe made it, with its recipe, of
// the model whose manifest is man, after the probe has been finished. It fills
// in revision and digests, and returns the preset as it is kept. On a fault
// nothing is left. Faults: preset.name_taken, preset.disk_full,
// preset.folder_unwritable, preset.revision_mismatched.
func (d *Draft) Commit(p Preset, man *gguf.Manifest) (*Preset, error) {
	defer d.Discard()
	text, err := json.Marshal(man)
	if err != nil {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	p.Revision, p.ManifestDigest = man.Revision, digest(text)
	info, err := d.probe.Stat()
	if err != nil {
		return nil, d.unwritten(err)
	}
	probe, err := ReadProbe(d.probe, info.Size(), d.probe.Name())
	if err != nil {
		return nil, err
	}
	if probe.Revision != p.Revision {
		return nil, d.store.foreign(&p, probeFile, probe.Revision)
	}
	p.ProbeDigest = probe.Digest
	own, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if what := p.check(d.name); what != "" {
		return nil, fault.New(fault.InternalUnexpected, component).Because(fmt.Errorf("the preset of %s: %s", d.name, what))
	}
	if err := d.publish(text, append(own, '\n')); err != nil {
		return nil, d.unwritten(err)
	}
	return &p, nil
}

func (d *Draft) publish(manifest, own []byte) error {
	if err := d.probe.Sync(); err != nil {
		return err
	}
	if err := put(filepath.Join(d.dir, manifestFile), manifest); err != nil {
		return err
	}
	if err := put(filepath.Join(d.dir, presetFile), own); err != nil {
		return err
	}
	if err := syncFolder(d.dir); err != nil {
		return err
	}
	whole := filepath.Join(d.store.dir, d.name)
	if err := os.Rename(d.dir, whole); err != nil {
		if _, there := os.Lstat(whole); there == nil {
			return d.taken()
		}
		return err
	}
	_ = os.Remove(filepath.Join(whole, lockFile)) // which nobody minds
	return syncFolder(d.store.dir)
}

// put writes a small file to the disk.
func put(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder puts the names in a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Discard removes what was made. After Commit it does nothing.
func (d *Draft) Discard() {
	if d.lock == nil {
		return
	}
	if d.probe != nil {
		_ = d.probe.Close() // it was put on the disk, or is removed
	}
	_ = os.RemoveAll(d.dir)    // the next Open sweeps what is left
	_ = os.Remove(d.store.dir) // where there is no other preset
	process.Unlock(d.lock)
	d.lock = nil
}

func (d *Draft) taken() error { return fault.New(fault.PresetNameTaken, component, "name", d.name) }

// unwritten makes the error of a write typed.
func (d *Draft) unwritten(err error) error {
	var f *fault.Fault
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.New(fault.PresetDiskFull, component, "path", d.store.dir).Because(err)
	}
	return fault.New(fault.PresetFolderUnwritable, component, "path", d.store.dir).Because(err)
}

// Remove removes a preset, and the files that were fetched for it, also where no
// preset came of them; fetched says that there were some. Files that were given by
// their path stay. Faults: preset.name_invalid, preset.name_unknown,
// preset.folder_locked, preset.folder_unwritable.
func (s *Store) Remove(name string) (fetched bool, err error) {
	if err := CheckName(name); err != nil {
		return false, err
	}
	if _, err := os.Stat(s.ModelFolder(name)); err == nil {
		fetched = true
	}
	if fetched {
		if err := s.idle(name); err != nil {
			return false, err
		}
	}
	if err := s.remove(name); err != nil && (!fetched || !errors.Is(err, fault.PresetNameUnknown)) {
		return false, err
	}
	if err := os.RemoveAll(s.ModelFolder(name)); err != nil {
		return false, fault.New(fault.PresetFolderUnwritable, component, "path", s.ModelFolder(name)).Because(err)
	}
	_ = os.Remove(filepath.Dir(s.ModelFolder(name))) // where there is no other
	return fetched, nil
}

// idle refuses where somebody is making a preset of that name.
func (s *Store) idle(name string) error {
	path := filepath.Join(s.dir, "."+name+adding, lockFile)
	if _, err := os.Stat(path); err != nil {
		return nil //nolint:nilerr // nobody is
	}
	l, holder, err := process.Lock(path)
	if errors.Is(err, process.ErrLocked) {
		return fault.New(fault.PresetFolderLocked, component, "name", name, "pid", holder)
	}
	if err == nil {
		process.Unlock(l)
	}
	return nil
}

func (s *Store) remove(name string) error {
	unwritten := func(err error) error {
		return fault.New(fault.PresetFolderUnwritable, component, "path", s.dir).Because(err)
	}
	going := filepath.Join(s.dir, "."+name+removing)
	if err := os.RemoveAll(going); err != nil {
		return unwritten(err)
	}
	err := os.Rename(filepath.Join(s.dir, name), going)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.PresetNameUnknown, component, "name", name, "known", s.known())
	}
	if err == nil {
		err = os.RemoveAll(going)
	}
	if err != nil {
		return unwritten(err)
	}
	return nil
}
