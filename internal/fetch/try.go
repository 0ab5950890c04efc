package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/machine"
)

// magic begins every GGUF file.
var magic = []byte("GGUF")

const (
	tellEvery = 100 * time.Millisecond
	mostSaid  = 300 // bytes of an answer that is shown
)

var errStalled = errors.New("no byte came for too long")

// try makes one request and takes what comes. nil means that the file is whole.
func (d *download) try(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(d.Stall, func() { cancel(errStalled) })
	defer stall.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url.String(), nil)
	if err != nil {
		return fault.New(fault.FetchURLInvalid, component, "url", shown(d.url), "what", "no request can be made of it").Because(err)
	}
	req.Header.Set("Accept-Encoding", "identity") // lengths are of the file itself
	if d.Token != "" {
		req.Header.Set("Authorization", "Bearer "+d.Token)
	}
	if d.have > 0 && d.as.Validator != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
		req.Header.Set("If-Range", d.as.Validator)
	}
	resp, err := d.Client.Do(req)
	if err != nil {
		return &lost{why(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	done, err := d.accept(resp)
	if done || err != nil {
		return err
	}
	return d.take(ctx, resp.Body, stall)
}

// why is the stall, where that ended a try.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// accept looks at the head of an answer and brings the file to where its body
// goes on; done means that nothing is missing.
func (d *download) accept(resp *http.Response) (done bool, err error) {
	as := origin{URL: shown(d.url), Validator: validator(resp.Header)}
	switch s := resp.StatusCode; {
	case s == http.StatusPartialContent:
		var from, to int64
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &d.total); err != nil || from != d.have {
			return false, d.astray("the server answered with another range than was asked for")
		}
	case s == http.StatusRequestedRangeNotSatisfiable:
		if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes */%d", &d.total); err == nil && d.total == d.have {
			return true, nil
		}
		return false, d.astray("the server has less than there is already")
	case s == http.StatusOK:
		if d.total = resp.ContentLength; d.total == 0 {
			return false, d.invalid("it is empty")
		}
		if err := d.anew(as); err != nil {
			return false, err
		}
	case s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || s >= http.StatusInternalServerError:
		return false, &lost{fmt.Errorf("the server answered %s", resp.Status)}
	default:
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostSaid)) // it is only shown
		return false, fault.New(fault.FetchSourceRefused, component, "url", shown(d.url), "status", resp.Status, "what", strings.TrimSpace(string(said)))
	}
	if free, known := machine.Space(filepath.Dir(d.path)); known && d.total > d.have && uint64(d.total-d.have) > free {
		return false, fault.New(fault.FetchDiskFull, component, "path", filepath.Dir(d.path), "need", d.total-d.have, "free", free)
	}
	return false, nil
}

// astray forgets what there is, so that the next try begins anew.
func (d *download) astray(what string) error {
	if err := d.anew(origin{}); err != nil {
		return err
	}
	return &lost{errors.New(what)}
}

// validator is what If-Range takes: a strong entity tag, else a time.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

func (d *download) invalid(what string) error {
	return fault.New(fault.FetchContentInvalid, component, "url", shown(d.url), "what", what)
}

// take writes what comes until its end.
func (d *download) take(ctx context.Context, body io.Reader, stall *time.Timer) error {
	block := make([]byte, 256<<10)
	var told time.Time
	for {
		n, err := body.Read(block)
		stall.Reset(d.Stall)
		if n > 0 {
			if d.have == 0 {
				if err := d.begins(block[:n]); err != nil {
					return err
				}
			}
			if _, err := d.file.Write(block[:n]); err != nil {
				return unwritten(d.path, err)
			}
			d.have += int64(n)
			if now := time.Now(); now.Sub(told) >= tellEvery {
				told = now
				d.Tell(event.DownloadProgressed{File: filepath.Base(d.path), Done: d.have, Total: max(d.total, 0)})
			}
		}
		switch {
		case errors.Is(err, io.EOF) && (d.total < 0 || d.have == d.total):
			return nil
		case errors.Is(err, io.EOF):
			return &lost{io.ErrUnexpectedEOF}
		case err != nil:
			return &lost{why(ctx, err)}
		}
	}
}

// begins refuses what is no GGUF file by its first bytes, before any is written.
func (d *download) begins(first []byte) error {
	n := min(len(first), len(magic))
	if bytes.Equal(first[:n], magic[:n]) {
		return nil
	}
	what := "it does not begin as a GGUF file does"
	if text := bytes.TrimSpace(first[:min(len(first), mostSaid)]); bytes.HasPrefix(text, []byte("<")) {
		what = "it is a page for people, and no file"
	}
	return d.invalid(what)
}

// unwritten types what went wrong with the folder.
func unwritten(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.New(fault.FetchDiskFull, component, "path", filepath.Dir(path), "need", "more", "free", "none").Because(err)
	}
	return fault.New(fault.FetchFolderUnwritable, component, "path", path).Because(err)
}
