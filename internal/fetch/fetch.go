// Package fetch brings a model's files from an HTTP server to a folder, however
// often the connection is cut.
//
//	URL ──► NAME.partial, with NAME.source beside it ──whole──► NAME
//	          ▲                                          │ the server has another
//	          └── cut, stalled, interrupted: from there on   └─► from the beginning
//
// What there is of a file is resumed only where the server confirms, by the
// validator that it gave, that it still has that very content. A name without an
// ending is a whole file.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
)

const (
	component = "fetch"

	partial = ".partial"
	source  = ".source"
)

// Config says how to fetch. The zero value is of use.
type Config struct {
	Client *http.Client  // nil: one of its own
	Token  string        // sent as a bearer to the URL's own host, never on to another
	Stall  time.Duration // without a byte, after which a connection counts as lost; default 30 s
	Pause  time.Duration // before the first try again, doubling to 30 s; default 1 s
	Tries  int           // in a row that bring nothing; default 5
	Tell   func(event.Event)
}

const mostPause = 30 * time.Second

func (c Config) filled() Config {
	if c.Client == nil {
		c.Client = &http.Client{}
	}
	if c.Stall <= 0 {
		c.Stall = 30 * time.Second
	}
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	if c.Tries <= 0 {
		c.Tries = 5
	}
	if c.Tell == nil {
		c.Tell = func(event.Event) {}
	}
	return c
}

// Files fetches what Parse has found into a folder, which it makes, and returns
// the path of the first. Faults: fetch.source_refused, fetch.connection_lost,
// fetch.content_invalid, fetch.digest_mismatched, fetch.disk_full,
// fetch.folder_unwritable, fetch.interrupted.
func (c Config) Files(ctx context.Context, s Source, dir string) (string, error) {
	c = c.filled()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", unwritten(dir, err)
	}
	for _, u := range s.URLs {
		d := &download{Config: c, url: u, path: filepath.Join(dir, path.Base(u.Path))}
		if err := d.fetch(ctx); err != nil {
			return "", err
		}
		if err := d.is(s.SHA256); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, path.Base(s.URLs[0].Path)), nil
}

// download is one file on its way.
type download struct {
	Config
	url  *url.URL
	path string // when it is whole

	file  *os.File
	have  int64 // bytes that lie in the file
	total int64 // -1: not known
	as    origin
}

// fetch tries until the file is whole. What was brought by a try is kept, and
// counts as a new beginning.
func (d *download) fetch(ctx context.Context) error {
	if err := d.open(); err != nil {
		return err
	}
	defer func() { _ = d.file.Close() }() // what is whole was synced
	pause := d.Pause
	for vain := 0; ; {
		before := d.have
		err := d.try(ctx)
		if err == nil {
			return d.whole()
		}
		var lost *lost
		if !errors.As(err, &lost) {
			return err
		}
		if ctx.Err() != nil {
			return fault.New(fault.FetchInterrupted, component, "url", shown(d.url), "done", d.have).Because(context.Cause(ctx))
		}
		if vain++; d.have > before {
			vain, pause = 1, d.Pause
		}
		if vain >= d.Tries {
			return fault.New(fault.FetchConnectionLost, component, "url", shown(d.url), "done", d.have, "tries", vain).Because(lost.why)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, mostPause)
	}
}

// lost is an end of a try after which another may bring more.
type lost struct{ why error }

func (l *lost) Error() string { return l.why.Error() }
func (l *lost) Unwrap() error { return l.why }

// open takes up what an earlier call has left, a whole file too: the server says
// whether it is still that one.
func (d *download) open() error {
	if _, err := os.Stat(d.path); err == nil {
		if err := os.Rename(d.path, d.path+partial); err != nil {
			return unwritten(d.path, err)
		}
	}
	f, err := os.OpenFile(d.path+partial, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unwritten(d.path, err)
	}
	d.file = f
	if d.have, err = f.Seek(0, io.SeekEnd); err != nil {
		_ = f.Close()
		return unwritten(d.path, err)
	}
	d.as = readOrigin(d.path+source, d.url)
	return nil
}

// anew forgets what there is.
func (d *download) anew(as origin) error {
	if err := d.file.Truncate(0); err != nil {
		return unwritten(d.path, err)
	}
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return unwritten(d.path, err)
	}
	d.have, d.as = 0, as
	if err := as.write(d.path + source); err != nil {
		return unwritten(d.path, err)
	}
	return nil
}

// whole puts the file on the disk and gives it its name.
func (d *download) whole() error {
	err := d.file.Sync()
	if err == nil {
		err = os.Rename(d.path+partial, d.path)
	}
	if err != nil {
		return unwritten(d.path, err)
	}
	return nil
}

// is refuses a whole file that has another digest than it should have, and
// removes it. "" takes any.
func (d *download) is(want string) error {
	if want == "" {
		return nil
	}
	f, err := os.Open(d.path)
	if err != nil {
		return unwritten(d.path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return unwritten(d.path, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		_, _ = os.Remove(d.path), os.Remove(d.path+source) // the next call begins anew in any case
		return fault.New(fault.FetchDigestMismatched, component, "url", shown(d.url), "got", got, "want", want)
	}
	return nil
}
