package main

import (
	"context"
	"time"

	"muster/internal/gateway"
	"muster/internal/store"
)

// keyring is where keys are read and changed.
type keyring interface {
	keys(ctx context.Context) (gateway.Keys, error)
	createKey(ctx context.Context, n store.NewKey) (gateway.MadeKey, error)
	revokeKey(ctx context.Context, which string) (store.Key, error)
	grant(ctx context.Context, c gateway.Credit) (store.Key, error)
}

func (f folderBooks) keys(ctx context.Context) (gateway.Keys, error) {
	all, err := f.store.Keys(ctx)
	return gateway.Keys{Keys: append([]store.Key{}, all...)}, err
}

func (f folderBooks) createKey(ctx context.Context, n store.NewKey) (gateway.MadeKey, error) {
	n.Created = time.Now()
	k, secret, err := f.store.CreateKey(ctx, n)
	return gateway.MadeKey{Key: k, Secret: secret}, err
}

func (f folderBooks) revokeKey(ctx context.Context, which string) (store.Key, error) {
	return f.store.RevokeKey(ctx, which, time.Now())
}

func (f folderBooks) grant(ctx context.Context, c gateway.Credit) (store.Key, error) {
	return f.store.Grant(ctx, c.Key, c.Request, c.Tokens, time.Now())
}

func (a apiBooks) keys(ctx context.Context) (gateway.Keys, error) { return a.client.Keys(ctx) }

func (a apiBooks) createKey(ctx context.Context, n store.NewKey) (gateway.MadeKey, error) {
	return a.client.CreateKey(ctx, n)
}

func (a apiBooks) revokeKey(ctx context.Context, which string) (store.Key, error) {
	return a.client.RevokeKey(ctx, which)
}

func (a apiBooks) grant(ctx context.Context, c gateway.Credit) (store.Key, error) {
	return a.client.Grant(ctx, c)
}
