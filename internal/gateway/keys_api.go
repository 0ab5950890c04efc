package gateway

import (
	"net/http"
	"time"

	"muster/internal/store"
)

// Keys is the answer of GET /api/keys.
type Keys struct {
	Keys []store.Key `json:"keys"` // in the order they were made
}

// MadeKey is the answer to the making of a key. Its secret is told this once.
type MadeKey struct {
	store.Key
	Secret string `json:"secret"`
}

// Credit is the body of /api/keys/credit.
type Credit struct {
	Key     string `json:"key"` // by its name or id
	Tokens  int64  `json:"tokens"`
	Request string `json:"request"` // names it, so that it can be asked again
}

// whichKey is the body of /api/keys/revoke.
type whichKey struct {
	Key string `json:"key"` // by its name or id
}

func (b Backend) keys(w http.ResponseWriter, r *http.Request) {
	all, err := b.Accounts.Keys(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	if all == nil {
		all = []store.Key{}
	}
	answer(w, http.StatusOK, Keys{all})
}

func (b Backend) createKey(w http.ResponseWriter, r *http.Request) {
	var n store.NewKey
	if !read(w, r, &n) {
		return
	}
	n.Created = time.Now()
	k, secret, err := b.Accounts.CreateKey(r.Context(), n)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, MadeKey{k, secret})
}

func (b Backend) revokeKey(w http.ResponseWriter, r *http.Request) {
	var ask whichKey
	if !read(w, r, &ask) {
		return
	}
	k, err := b.Accounts.RevokeKey(r.Context(), ask.Key, time.Now())
	answerKey(w, k, err)
}

func (b Backend) grantKey(w http.ResponseWriter, r *http.Request) {
	var c Credit
	if !read(w, r, &c) {
		return
	}
	k, err := b.Accounts.Grant(r.Context(), c.Key, c.Request, c.Tokens, time.Now())
	answerKey(w, k, err)
}

func answerKey(w http.ResponseWriter, k store.Key, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusOK, k)
}
