// Package reports keeps in a folder what the doctor has found, the failed as
// well as the passed, bounded in number and age.
//
// A report is one file, written beside its place and renamed into it. Several
// processes may keep reports in one folder.
package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/internal/doctor"
	"muster/internal/fault"
	"muster/internal/wire"
)

const (
	component = "reports"
	folder    = "reports"
	ending    = ".json"
	draft     = ".new"

	most      = 20                  // reports kept
	oldest    = 30 * 24 * time.Hour // of a report kept
	abandoned = time.Hour           // of a draft whose writer is gone by then
	mostBytes = 256 << 10           // of a file that is read
)

// Version of the form of reports.
const Version = 1

// Report is what was found of one shard.
type Report struct {
	Version  int             `json:"version"` // Version
	At       time.Time       `json:"at"`      // of the end of the examination
	Model    string          `json:"model"`
	Revision string          `json:"revision"` // digest of the model
	Recipe   wire.Recipe     `json:"recipe"`
	Findings doctor.Findings `json:"findings"`
	Failed   *fault.Fault    `json:"failed,omitempty"` // why the shard failed; nil where it passed
}

// Keep adds a report, at its time, to those of a data folder and removes those
// that are too many or too old. Faults: reports.folder_unwritable.
func Keep(data string, r Report) error {
	dir := filepath.Join(data, folder)
	r.Version, r.At = Version, r.At.UTC()
	if err := write(dir, r); err != nil {
		return fault.New(fault.ReportsFolderUnwritable, component, "path", dir).Because(err)
	}
	return prune(dir, r.At)
}

func write(dir string, r Report) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "*"+draft)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, nameOf(r.At)))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what there is of it is of no use
	}
	return err
}

// nameOf sorts by time. Two reports of one folder are never of one nanosecond,
// unless a clock was set back: the later one stays.
func nameOf(at time.Time) string {
	return at.Format("20060102T150405") + fmt.Sprintf(".%09dZ", at.Nanosecond()) + ending
}

// prune removes what is more than the bounds allow, and drafts without a writer.
func prune(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.New(fault.ReportsFolderUnreadable, component, "path", dir).Because(err)
	}
	var gone []string
	kept := 0
	for _, e := range slices.Backward(entries) {
		info, err := e.Info()
		if err != nil {
			continue // another process has removed it
		}
		age := now.Sub(info.ModTime())
		switch {
		case strings.HasSuffix(e.Name(), draft) && age > abandoned:
			gone = append(gone, e.Name())
		case !strings.HasSuffix(e.Name(), ending):
		case kept >= most || age > oldest:
			gone = append(gone, e.Name())
		default:
			kept++
		}
	}
	for _, name := range gone {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.New(fault.ReportsFolderUnwritable, component, "path", dir).Because(err)
		}
	}
	return nil
}

// Kept are the reports of a data folder, the latest first. Files that are no
// reports, or of a later form, are counted in damaged. Faults: reports.missing
// where there are none, reports.folder_unreadable.
func Kept(data string) (kept []Report, damaged int, err error) {
	dir := filepath.Join(data, folder)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fault.New(fault.ReportsFolderUnreadable, component, "path", dir).Because(err)
	}
	for _, e := range slices.Backward(entries) {
		if !strings.HasSuffix(e.Name(), ending) {
			continue
		}
		r, err := read(filepath.Join(dir, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process has just removed it
		case err != nil:
			damaged++
		default:
			kept = append(kept, r)
		}
	}
	if len(kept)+damaged == 0 {
		return nil, 0, fault.New(fault.ReportsMissing, component, "path", dir)
	}
	return kept, damaged, nil
}

func read(path string) (Report, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Report{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostBytes {
		return Report{}, errors.New("it is no report")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Report{}, err
	}
	return parse(text)
}

// parse reads one report and nothing else.
func parse(text []byte) (r Report, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Report{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Report{}, errors.New("something follows the report")
	}
	if r.Version != Version || r.At.IsZero() {
		return Report{}, fmt.Errorf("it is of the form %d, told at %v", r.Version, r.At)
	}
	return r, nil
}
