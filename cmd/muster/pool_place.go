package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"muster/internal/fault"
	"muster/internal/gateway"
	"muster/internal/pooldef"
	"muster/internal/store"
)

// pools is where definitions are read and changed.
type pools interface {
	// pool is the definition of a name, or the only one there is for "".
	pool(ctx context.Context, name string) (pooldef.Pool, error)
	// define changes it, if it is still at p.Epoch.
	define(ctx context.Context, p pooldef.Pool) (pooldef.Pool, error)
}

// books are all that is read and changed in an orchestrator's folder.
type books interface {
	pools
	keyring
}

// poolPlace says where: a folder, or the orchestrator that runs on it.
type poolPlace struct {
	data, api string
	named     func() bool // data was given
	missing   fault.Code  // what to say of a folder without a store
}

func (w *poolPlace) addFlags(f *pflag.FlagSet) {
	f.StringVar(&w.data, "data", defaultFolder("orchestrator"), "the orchestrator's data folder")
	f.StringVar(&w.api, "api", "", "address of the orchestrator that runs, as it printed it at its start (or MUSTER_API)")
	w.named = func() bool { return f.Changed("data") }
}

// folderPatience is how long a folder may be held by somebody who is no
// orchestrator that answers: another `muster pool`, or one that still starts.
const folderPatience = 5 * time.Second

// within has do done with the folder's store, or with the orchestrator that has
// it: the store's lock tells. A folder without a store is made one only where
// makes is set.
func (w poolPlace) within(ctx context.Context, makes bool, do func(context.Context, books) error) error {
	ctx, cancel := context.WithTimeout(ctx, poolVerbWithin)
	defer cancel()
	address := cmp.Or(w.api, os.Getenv("MUSTER_API"))
	if address != "" && !w.named() {
		return do(ctx, apiBooks{gateway.NewClient(address)})
	}
	if err := needsData(w.data); err != nil {
		return err
	}
	if !makes && !store.Found(w.data) {
		return fault.New(w.missing, "", "path", w.data)
	}
	client := gateway.NewClient(cmp.Or(address, "127.0.0.1:"+defaultPort))
	for end := time.Now().Add(folderPatience); ; {
		held := w.withStore(ctx, do)
		if !errors.Is(held, fault.StoreFolderLocked) {
			return held
		}
		at, err := client.Pool(ctx)
		switch {
		case err == nil && !sameFolder(at.Data, w.data):
			return fault.New(fault.PoolFolderMismatched, "", "address", client.Address(), "theirs", cmp.Or(at.Data, "none"), "path", w.data).Because(held)
		case err == nil:
			return do(ctx, apiBooks{client})
		case !errors.Is(err, fault.GatewayUnreachable):
			return err
		case time.Now().After(end):
			return fault.New(fault.GatewayUnreachable, "", "address", client.Address()).Because(held)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w poolPlace) withStore(ctx context.Context, do func(context.Context, books) error) error {
	s, err := store.Open(ctx, w.data)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, folderBooks{s, w.data}), s.Close())
}

func sameFolder(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(at, other)
}

// folderBooks are those of a folder that nobody else has open.
type folderBooks struct {
	store *store.Store
	dir   string
}

func (f folderBooks) pool(ctx context.Context, name string) (pooldef.Pool, error) {
	if name != "" {
		return f.store.Pool(ctx, name)
	}
	all, err := f.store.Pools(ctx)
	switch {
	case err != nil:
		return pooldef.Pool{}, err
	case len(all) == 0:
		return pooldef.Pool{}, fault.New(fault.PoolUndefined, "", "path", f.dir)
	case len(all) == 1:
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return pooldef.Pool{}, fault.New(fault.PoolNameMissing, "", "path", f.dir, "pools", strings.Join(names, ", "))
}

func (f folderBooks) define(ctx context.Context, p pooldef.Pool) (pooldef.Pool, error) {
	return f.store.SetPool(ctx, p)
}

// apiBooks are those of an orchestrator that runs, which has one pool.
type apiBooks struct{ client *gateway.Client }

func (a apiBooks) pool(ctx context.Context, name string) (pooldef.Pool, error) {
	p, err := a.client.Pool(ctx)
	if err == nil && name != "" && name != p.Name {
		err = fault.New(fault.PoolUnknown, "", "pool", name, "have", p.Name)
	}
	return p.Pool, err
}

func (a apiBooks) define(ctx context.Context, p pooldef.Pool) (pooldef.Pool, error) {
	now, err := a.client.DefinePool(ctx, p)
	return now.Pool, err
}

// absolute is a path as another process understands it; none stays none.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}
