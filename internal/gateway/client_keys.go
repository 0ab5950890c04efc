package gateway

import (
	"context"
	"net/http"

	"muster/internal/store"
)

// Keys reads all keys.
func (c *Client) Keys(ctx context.Context) (all Keys, err error) {
	err = c.object(ctx, http.MethodGet, "/api/keys", nil, &all)
	return all, err
}

// CreateKey makes a key.
func (c *Client) CreateKey(ctx context.Context, n store.NewKey) (made MadeKey, err error) {
	err = c.object(ctx, http.MethodPost, "/api/keys", n, &made)
	return made, err
}

// RevokeKey takes a key, by its name or id, out of use.
func (c *Client) RevokeKey(ctx context.Context, which string) (k store.Key, err error) {
	err = c.object(ctx, http.MethodPost, "/api/keys/revoke", whichKey{which}, &k)
	return k, err
}

// Grant adds to the credit of a key, once for each request.
func (c *Client) Grant(ctx context.Context, g Credit) (k store.Key, err error) {
	err = c.object(ctx, http.MethodPost, "/api/keys/credit", g, &k)
	return k, err
}
