package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/event"
	"muster/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model begins as a GGUF file does.
func model(size int, salt byte) []byte {
	b := []byte("GGUF")
	for len(b) < size {
		b = append(b, byte(len(b)*7)+salt)
	}
	return b
}

// server gives a content as ranges of it are asked for.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	content []byte
	tag     string
	plain   bool  // knows no ranges and no validators
	cuts    []int // bytes after which an answer is cut off, one an answer; 0: it is not
	hangs   bool  // a cut answer stays open
	status  []int // answers before the content; 0: the content
	asked   []http.Header
}

func serve(t *testing.T, content []byte) *server {
	t.Helper()
	s := &server{content: content, tag: `"one"`}
	over := make(chan struct{})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Header.Clone())
		content, tag, plain, hangs, cut, status := s.content, s.tag, s.plain, s.hangs, 0, 0
		if len(s.status) > 0 {
			status, s.status = s.status[0], s.status[1:]
		}
		if status == 0 && len(s.cuts) > 0 {
			cut, s.cuts = s.cuts[0], s.cuts[1:]
		}
		s.mu.Unlock()
		if status != 0 {
			http.Error(w, "not now", status)
			return
		}
		if cut > 0 {
			w = &cutting{ResponseWriter: w, left: cut, stay: func() {
				if hangs {
					select {
					case <-r.Context().Done():
					case <-over:
					}
				}
				panic(http.ErrAbortHandler)
			}}
		}
		if plain {
			_, _ = w.Write(content)
			return
		}
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(func() {
		close(over)
		s.Close()
	})
	return s
}

// cutting lets so many bytes through.
type cutting struct {
	http.ResponseWriter
	left int
	stay func()
}

func (c *cutting) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	_, _ = c.ResponseWriter.Write(b[:n])
	if c.left -= n; c.left == 0 {
		c.ResponseWriter.(http.Flusher).Flush()
		c.stay()
	}
	return n, nil
}

// ranges are those that were asked for.
func (s *server) ranges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, h := range s.asked {
		all = append(all, h.Get("Range"))
	}
	return all
}

func (s *server) do(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func quick() Config {
	return Config{Stall: 300 * time.Millisecond, Pause: time.Millisecond, Tries: 3}
}

// get fetches the server's file m.gguf into a folder.
func (s *server) get(t *testing.T, c Config, dir string) ([]byte, error) {
	t.Helper()
	from, err := Parse(s.URL+"/m.gguf", "", "")
	if err != nil {
		t.Fatal(err)
	}
	path, err := c.Files(t.Context(), from, dir)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b, nil
}

func wantCode(t *testing.T, err error, code fault.Code) *fault.Fault {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("ended with %v, want %s", err, code)
	}
	return fault.From(err)
}

func TestAFileComesHowOftenItIsCut(t *testing.T) {
	want := model(1<<20, 0)
	for name, c := range map[string]struct {
		make func(*server)
		asks []string // ranges
	}{
		"at once":              {func(*server) {}, []string{""}},
		"in three":             {func(s *server) { s.cuts = []int{1000, 300_000} }, []string{"", "bytes=1000-", "bytes=301000-"}},
		"after a pause":        {func(s *server) { s.status = []int{503, 429} }, []string{"", "", ""}},
		"after a stall":        {func(s *server) { s.cuts, s.hangs = []int{5000}, true }, []string{"", "bytes=5000-"}},
		"without ranges":       {func(s *server) { s.plain, s.cuts = true, []int{700_000} }, []string{"", ""}},
		"cut at its beginning": {func(s *server) { s.cuts = []int{2} }, []string{"", "bytes=2-"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, want)
			c.make(s)
			cfg := quick()
			var last event.DownloadProgressed
			cfg.Tell = func(e event.Event) { last = e.(event.DownloadProgressed) }
			dir := t.TempDir()
			got, err := s.get(t, cfg, dir)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes came (%v)", len(got), err)
			}
			if !slices.Equal(s.ranges(), c.asks) {
				t.Errorf("asked for %q, want %q", s.ranges(), c.asks)
			}
			if last.File != "m.gguf" || last.Done == 0 {
				t.Errorf("told last %+v", last)
			}
			if left, _ := filepath.Glob(dir + "/*" + partial); len(left) != 0 {
				t.Errorf("left is %q", left)
			}
		})
	}
}

// What lies there is gone on with only where the server has that content still.
func TestAnInterruptedFileIsTakenUp(t *testing.T) {
	for name, c := range map[string]struct {
		between func(*server)
		want    []byte
	}{
		"the same": {func(*server) {}, model(900_000, 0)},
		"another": {func(s *server) {
			s.content, s.tag = model(800_000, 5), `"two"`
		}, model(800_000, 5)},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, model(900_000, 0))
			s.cuts, s.hangs = []int{40_000}, true
			dir := t.TempDir()
			from, err := Parse(s.URL+"/m.gguf?signature=secret", "", "")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			cfg := quick()
			cfg.Stall = time.Minute
			cfg.Tell = func(event.Event) { stop() }
			_, err = cfg.Files(ctx, from, dir)
			if f := wantCode(t, err, fault.FetchInterrupted); strings.Contains(f.Error(), "secret") {
				t.Errorf("a signature is told: %v", f)
			}
			if text, _ := os.ReadFile(filepath.Join(dir, "m.gguf"+source)); bytes.Contains(text, []byte("secret")) {
				t.Errorf("a signature is kept: %s", text)
			}
			had, err := os.Stat(filepath.Join(dir, "m.gguf"+partial))
			if err != nil || had.Size() == 0 {
				t.Fatalf("nothing is kept: %v", err)
			}
			s.do(func() { c.between(s) })
			got, err := s.get(t, quick(), dir)
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("%d bytes came (%v), want %d", len(got), err, len(c.want))
			}
			if asks := s.ranges(); asks[len(asks)-1] != fmt.Sprintf("bytes=%d-", had.Size()) {
				t.Errorf("asked for %q", asks)
			}
		})
	}
}

// A file that is whole already is asked after, and not fetched again.
func TestAWholeFileIsNotFetchedTwice(t *testing.T) {
	s, dir := serve(t, model(5000, 0)), t.TempDir()
	for range 2 {
		if got, err := s.get(t, quick(), dir); err != nil || !bytes.Equal(got, s.content) {
			t.Fatalf("%d bytes came (%v)", len(got), err)
		}
	}
	if asks := s.ranges(); !slices.Equal(asks, []string{"", "bytes=5000-"}) {
		t.Errorf("asked for %q", asks)
	}
	s.do(func() { s.content, s.tag = model(300, 9), `"two"` })
	if got, err := s.get(t, quick(), dir); err != nil || !bytes.Equal(got, s.content) {
		t.Errorf("of another content %d bytes came (%v)", len(got), err)
	}
}

func TestWhatIsNoModelIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*server)
		code fault.Code
		says string
	}{
		"a page":         {func(s *server) { s.content = []byte("<!DOCTYPE html><p>log in") }, fault.FetchContentInvalid, "a page for people"},
		"another format": {func(s *server) { s.content = []byte("PK\x03\x04 and more") }, fault.FetchContentInvalid, "GGUF"},
		"nothing":        {func(s *server) { s.content = nil }, fault.FetchContentInvalid, "empty"},
		"not there":      {func(s *server) { s.status = []int{404} }, fault.FetchSourceRefused, "404 Not Found: not now"},
		"not for us":     {func(s *server) { s.status = []int{403} }, fault.FetchSourceRefused, "403"},
		"always down":    {func(s *server) { s.status = []int{500, 502, 503, 500} }, fault.FetchConnectionLost, "3 tries"},
		"always cut":     {func(s *server) { s.cuts, s.plain = []int{3, 3, 3, 3}, true }, fault.FetchConnectionLost, "3 tries"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, model(100, 0))
			c.make(s)
			dir := t.TempDir()
			_, err := s.get(t, quick(), dir)
			if f := wantCode(t, err, c.code); !strings.Contains(f.Error(), c.says) || f.Hint() == "" {
				t.Errorf("it says %q", f.Error())
			}
			if _, err := os.Stat(filepath.Join(dir, "m.gguf")); err == nil {
				t.Error("a file has its name")
			}
		})
	}
}

func TestADigestIsHeldTo(t *testing.T) {
	s, dir := serve(t, model(5000, 0)), t.TempDir()
	sum := sha256.Sum256(s.content)
	for _, c := range []struct {
		sha  string
		code fault.Code
	}{{strings.Repeat("ab", 32), fault.FetchDigestMismatched}, {strings.ToUpper(hex.EncodeToString(sum[:])), ""}} {
		from, err := Parse(s.URL+"/m.gguf", c.sha, "")
		if err != nil {
			t.Fatal(err)
		}
		path, err := quick().Files(t.Context(), from, dir)
		if c.code != "" {
			wantCode(t, err, c.code)
		} else if err != nil || path != filepath.Join(dir, "m.gguf") {
			t.Errorf("%q, %v", path, err)
		}
	}
}

// The token goes to the host of the address and is not handed on to where that
// one leads.
func TestATokenStaysWithItsHost(t *testing.T) {
	behind := serve(t, model(5000, 0))
	var seen string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization") + " " + r.URL.Path
		http.Redirect(w, r, strings.Replace(behind.URL, "127.0.0.1", "localhost", 1)+"/x.gguf", http.StatusFound)
	}))
	defer front.Close()
	from, err := Parse("hf://owner/repo/dir/m.gguf@v2", "", front.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := quick()
	cfg.Token = "secret"
	path, err := cfg.Files(t.Context(), from, t.TempDir())
	if err != nil || filepath.Base(path) != "m.gguf" {
		t.Fatalf("%q, %v", path, err)
	}
	if seen != "Bearer secret /owner/repo/resolve/v2/dir/m.gguf" {
		t.Errorf("the hub was asked by %q", seen)
	}
	if given := behind.asked[0].Get("Authorization"); given != "" {
		t.Errorf("the other host was given %q", given)
	}
}

func TestAllPartsOfASplitModelCome(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+"?"+r.URL.RawQuery)
		_, _ = io.WriteString(w, "GGUF"+r.URL.Path)
	}))
	defer s.Close()
	from, err := Parse(s.URL+"/a b/m-00002-of-00003.gguf?k=v", "", "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := quick().Files(t.Context(), from, dir)
	if err != nil || path != filepath.Join(dir, "m-00001-of-00003.gguf") {
		t.Fatalf("%q, %v", path, err)
	}
	want := []string{"/a b/m-00001-of-00003.gguf?k=v", "/a b/m-00002-of-00003.gguf?k=v", "/a b/m-00003-of-00003.gguf?k=v"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
}

func TestAddressesThatCannotBeAreRefused(t *testing.T) {
	for _, text := range []string{
		"ftp://host/m.gguf", "https:///m.gguf", "https://host/", "https://host/m.bin", "hf://owner/m.gguf", "hf://owner/repo/", "https://ho st/m.gguf",
		"https://host/m-00001-of-00000.gguf", "https://host/m-00001-of-99999.gguf", "://", "file:///etc/passwd.gguf",
	} {
		_, err := Parse(text, "", "")
		wantCode(t, err, fault.FetchURLInvalid)
	}
	for _, sha := range []string{"xx", "ab", strings.Repeat("g", 64)} {
		_, err := Parse("https://host/m.gguf", sha, "")
		wantCode(t, err, fault.CLIFlagInvalid)
	}
	_, err := Parse("https://host/m-00001-of-00002.gguf", strings.Repeat("ab", 32), "")
	wantCode(t, err, fault.CLIFlagInvalid)
}

func FuzzParse(f *testing.F) {
	f.Add("https://host/m-00001-of-00002.gguf?x=y")
	f.Add("hf://owner/repo/m.gguf@main")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text, "", "")
		if err != nil {
			return
		}
		if len(s.URLs) == 0 || len(s.URLs) > mostParts {
			t.Fatalf("%d files", len(s.URLs))
		}
		for _, u := range s.URLs {
			name := filepath.Base(u.Path)
			if !strings.HasSuffix(name, ".gguf") || strings.ContainsAny(name, "/\x00") || name == ".." {
				t.Fatalf("the file would be called %q", name)
			}
			if _, err := url.Parse(u.String()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
