package gateway

import (
	"context"
	"net/http"
	"strings"

	"muster/internal/fault"
	"muster/internal/store"
)

// keyed lets in what comes with a key that counts, and answers 401 otherwise.
// Where no key was ever made and none is demanded, everybody is let in and
// nobody is charged.
func (b Backend) keyed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		k, needed, err := b.authenticate(r)
		if err != nil {
			if f := fault.From(err); f.Code.Entry().Kind == fault.Unkeyed {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			problem(w, err, nil)
			return
		}
		if needed {
			r = r.WithContext(context.WithValue(r.Context(), keyOfRequest{}, k))
		}
		next(w, r)
	}
}

// keyOfRequest is under what the context of a request has its key.
type keyOfRequest struct{}

// authenticate is the key that a request comes with, where it needs one.
func (b Backend) authenticate(r *http.Request) (k store.Key, needed bool, err error) {
	if b.Accounts == nil {
		return k, false, nil
	}
	needed, err = b.Accounts.HasKeys(r.Context())
	if needed = needed || b.KeysDemanded; err != nil || !needed {
		return k, needed, err
	}
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if secret = strings.TrimSpace(secret); !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return k, true, fault.New(fault.KeySecretMissing, component)
	}
	k, err = b.Accounts.FindKey(r.Context(), secret)
	return k, true, err
}
