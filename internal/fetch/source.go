package fetch

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"muster/internal/fault"
)

// Source is where a model lies.
type Source struct {
	URLs   []*url.URL // of its files, in their order
	SHA256 string     // of its one file, in hexadecimal; "": none was told
}

// Remote reports whether a model is named by an address and not by a path.
func Remote(text string) bool { return strings.Contains(text, "://") }

// hub is where hf:// addresses lead, unless HF_ENDPOINT says otherwise.
const hub = "https://huggingface.co"

var part = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// mostParts is more than any split model has.
const mostParts = 1000

// Parse reads an http, https or hf address. Of a split model it may be any
// part's. hf://OWNER/REPO/FILE@REVISION is a file of Hugging Face's hub, of the
// revision main where none is named; endpoint is another hub, "" for theirs.
// sha256 is "" or 64 hexadecimal digits. Fault: fetch.url_invalid.
func Parse(text, sha256, endpoint string) (Source, error) {
	invalid := func(what string) error {
		return fault.New(fault.FetchURLInvalid, component, "url", text, "what", what)
	}
	u, err := url.Parse(text)
	if err != nil {
		return Source{}, invalid("it is no address")
	}
	if u.Scheme == "hf" {
		if u, err = hubAddress(u, cmp.Or(endpoint, hub)); err != nil {
			return Source{}, invalid(err.Error())
		}
	}
	name := path.Base(u.Path)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return Source{}, invalid("its scheme is none of http, https and hf")
	case u.Host == "":
		return Source{}, invalid("it names no host")
	case !strings.HasSuffix(name, ".gguf"):
		return Source{}, invalid("it does not end in the name of a .gguf file")
	case strings.ContainsFunc(name, unfit):
		return Source{}, invalid("no file can be called as it ends on every system")
	}
	s := Source{URLs: []*url.URL{u}, SHA256: strings.ToLower(sha256)}
	if digest, err := hex.DecodeString(s.SHA256); err != nil || len(digest) != 0 && len(digest) != 32 {
		return Source{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--sha256", "value", sha256, "want", "give 64 hexadecimal digits, as sha256sum prints them")
	}
	m := part.FindStringSubmatch(name)
	if m == nil {
		return s, nil
	}
	parts, _ := strconv.Atoi(m[3]) // five digits
	if parts == 0 || parts > mostParts {
		return Source{}, invalid("a model has no such number of parts")
	}
	if s.SHA256 != "" && parts > 1 {
		return Source{}, fault.New(fault.CLIFlagInvalid, "", "flag", "--sha256", "value", sha256, "want", "a split model has more than one file: leave it out, every tensor is digested anyway")
	}
	s.URLs = nil
	for i := range parts {
		one := *u
		one.Path, one.RawPath = path.Join(path.Dir(u.Path), fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i+1, m[3])), ""
		s.URLs = append(s.URLs, &one)
	}
	return s, nil
}

// unfit reports whether a character may be in no file's name.
func unfit(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) }

// hubAddress is that of hf://OWNER/REPO/FILE@REVISION.
func hubAddress(u *url.URL, endpoint string) (*url.URL, error) {
	file, revision, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "@")
	repo, file, ok := strings.Cut(file, "/")
	if u.Host == "" || repo == "" || !ok || file == "" {
		return nil, fmt.Errorf("give hf://OWNER/REPO/FILE.gguf, and @REVISION where it is not main")
	}
	base, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("HF_ENDPOINT is no address: %w", err)
	}
	return base.JoinPath(u.Host, repo, "resolve", cmp.Or(revision, "main"), file), nil
}

// shown is an address for people: without a password, and without a query, which
// may hold a signature.
func shown(u *url.URL) string {
	one := *u
	one.RawQuery, one.User = "", nil
	return one.String()
}

// origin says of what content the bytes of a partial file are.
type origin struct {
	URL       string `json:"url"`
	Validator string `json:"validator"` // a strong entity tag or a time, as the server gave it; "" where it gave none
}

// readOrigin is that of a partial file, none where it is of another address or
// cannot be read: then the file is fetched anew.
func readOrigin(path string, u *url.URL) origin {
	var as origin
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &as) != nil || as.URL != shown(u) {
		return origin{}
	}
	return as
}

func (o origin) write(path string) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
