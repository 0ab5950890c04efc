package orch

import (
	"context"
	"errors"
	"strings"

	"muster/internal/fault"
	"muster/internal/store"
)

// poolDefault is the name of a pool that nobody named.
const poolDefault = "pool"

// definePool stores the pool that was given, or finds the stored one. A pool
// without a name is the one there is.
func (o *Orch) definePool(ctx context.Context) (store.Pool, error) {
	want := o.cfg.Pool
	if want.Name == "" {
		stored, err := o.store.Pools(ctx)
		if err != nil {
			return store.Pool{}, err
		}
		if want.Name, err = theOne(stored, o.cfg.DataDir); err != nil {
			return store.Pool{}, err
		}
		o.cfg.Pool.Name = want.Name
	}
	if err := o.mayBe(want); err != nil {
		return store.Pool{}, err
	}
	have, err := o.store.Pool(ctx, want.Name)
	switch {
	case errors.Is(err, fault.StorePoolUnknown):
		have = store.Pool{Name: want.Name}
		if want.Nodes == nil {
			return o.store.SetPool(ctx, have)
		}
	case err != nil:
		return store.Pool{}, err
	case want.Nodes == nil:
		return have, o.mayBe(have)
	}
	have.Nodes = want.Nodes
	return o.store.SetPool(ctx, have)
}

func theOne(stored []store.Pool, dir string) (string, error) {
	switch len(stored) {
	case 0:
		return poolDefault, nil
	case 1:
		return stored[0].Name, nil
	}
	names := make([]string, len(stored))
	for i, p := range stored {
		names[i] = p.Name
	}
	return "", fault.New(fault.PoolNameMissing, component, "path", dir, "pools", strings.Join(names, ", "))
}

// mayBe refuses a pool that the gate would refuse, before it is stored.
func (o *Orch) mayBe(p store.Pool) error {
	for _, n := range p.Nodes {
		if n.ID == o.self {
			return fault.New(fault.PoolDefinitionInvalid, component, "epoch", p.Epoch,
				"what", n.ID.Short()+" is the orchestrator, which computes no layers")
		}
	}
	return nil
}

// Pool is the definition in force.
func (o *Orch) Pool(ctx context.Context) (store.Pool, error) {
	var p store.Pool
	err := o.ask(ctx, func(m *mailbox) { p = m.pool })
	return p, err
}

// DefinePool changes the pool, if it is still at p.Epoch: in the store, then
// here. A run that needs a node which goes ends by node.removed and is never
// re-placed; one that does not need it goes on. Faults: pool.unknown for another
// pool than this orchestrator's, pool.definition_invalid, and those of
// store.SetPool.
func (o *Orch) DefinePool(ctx context.Context, p store.Pool) (store.Pool, error) {
	if p.Name != o.cfg.Pool.Name {
		return store.Pool{}, fault.New(fault.PoolUnknown, component, "pool", p.Name, "have", o.cfg.Pool.Name)
	}
	if err := o.mayBe(p); err != nil {
		return store.Pool{}, err
	}
	p, err := o.store.SetPool(ctx, p)
	if err != nil {
		return store.Pool{}, err
	}
	// What is stored counts, whether or not the asker still waits.
	return p, o.ask(context.WithoutCancel(ctx), func(m *mailbox) {
		if p.Epoch > m.pool.Epoch {
			m.define(p)
		}
	})
}
