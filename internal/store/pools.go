package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"muster/internal/fault"
	"muster/internal/pooldef"
)

// Pool and Node are the operator's definition, as it is stored.
type (
	Pool = pooldef.Pool
	Node = pooldef.Node
)

// SetPool replaces the definition of a pool, if it is still at p.Epoch: 0 makes
// a new one. It returns the definition with its new epoch, which is the old one
// where the nodes are the same as before.
//
// Faults: store.pool_changed where the pool is at another epoch,
// store.pool_unknown where it has none, store.pool_invalid for what no pool can
// be; and those of any call.
func (s *Store) SetPool(ctx context.Context, p Pool) (Pool, error) {
	if err := p.Check(); err != nil {
		return Pool{}, err
	}
	err := s.change(ctx, "SetPool", func(ctx context.Context, tx *sql.Tx) error {
		now, err := readPool(ctx, tx, p.Name)
		if err != nil && !(p.Epoch == 0 && errors.Is(err, fault.StorePoolUnknown)) {
			return err
		}
		if now.Epoch != p.Epoch {
			return poolChanged(p.Name, now.Epoch, p.Epoch)
		}
		if p.Epoch > 0 && now.Same(p) {
			return nil
		}
		p.Epoch++
		return writePool(ctx, tx, p)
	})
	if err != nil {
		return Pool{}, err
	}
	return p, nil
}

func poolChanged(name string, epoch, want uint64) *fault.Fault {
	return fault.New(fault.StorePoolChanged, component, "pool", name, "epoch", epoch, "want", want)
}

func writePool(ctx context.Context, tx *sql.Tx, p Pool) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO pool (name, epoch) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET epoch = ?2", p.Name, p.Epoch); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM node WHERE pool = ?", p.Name); err != nil {
		return err
	}
	insert, err := tx.PrepareContext(ctx, "INSERT INTO node (pool, place, id, name, addresses) VALUES (?, ?, ?, nullif(?, ''), ?)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	for place, n := range p.Nodes {
		addresses, err := json.Marshal(n.Addresses)
		if err != nil {
			return err
		}
		if _, err := insert.ExecContext(ctx, p.Name, place, n.ID[:], n.Name, string(addresses)); err != nil {
			return err
		}
	}
	return nil
}

// Pool returns the definition of a pool. Faults: store.pool_unknown, and those
// of any call.
func (s *Store) Pool(ctx context.Context, name string) (p Pool, err error) {
	err = s.view(ctx, "Pool", func(ctx context.Context, tx *sql.Tx) error {
		p, err = readPool(ctx, tx, name)
		return err
	})
	return p, err
}

// Pools returns the definitions of all pools, by name.
func (s *Store) Pools(ctx context.Context) (pools []Pool, err error) {
	err = s.view(ctx, "Pools", func(ctx context.Context, tx *sql.Tx) error {
		names, err := collect(ctx, tx, func(row scan) (name string, err error) {
			return name, row(&name)
		}, "SELECT name FROM pool ORDER BY name")
		if err != nil {
			return err
		}
		for _, name := range names {
			p, err := readPool(ctx, tx, name)
			if err != nil {
				return err
			}
			pools = append(pools, p)
		}
		return nil
	})
	return pools, err
}

func readPool(ctx context.Context, tx *sql.Tx, name string) (Pool, error) {
	p := Pool{Name: name}
	err := tx.QueryRowContext(ctx, "SELECT epoch FROM pool WHERE name = ?", name).Scan(&p.Epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return Pool{}, fault.New(fault.StorePoolUnknown, component, "pool", name)
	}
	if err != nil {
		return Pool{}, err
	}
	p.Nodes, err = collect(ctx, tx, readNode, "SELECT id, coalesce(name, ''), addresses FROM node WHERE pool = ? ORDER BY place", name)
	return p, err
}

func readNode(row scan) (n Node, err error) {
	var key, addresses []byte
	if err := row(&key, &n.Name, &addresses); err != nil {
		return n, err
	}
	copy(n.ID[:], key) // the schema holds its length
	return n, json.Unmarshal(addresses, &n.Addresses)
}
