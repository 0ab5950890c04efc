package orch

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"path/filepath"
	"time"

	"muster/internal/control"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/event"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/identity"
	"muster/internal/member"
	"muster/internal/store"
	"muster/internal/weights"
	"muster/internal/wire"
)

// open makes what can fail, in order; release frees what there is of it.
func (o *Orch) open(ctx context.Context) (store.Pool, error) {
	key, err := o.key()
	if err != nil {
		return store.Pool{}, err
	}
	o.self = id.NodeIDOf(key.Public().(ed25519.PublicKey))
	if o.boot, err = id.NewBootID(rand.Reader); err != nil {
		return store.Pool{}, fault.New(fault.InternalUnexpected, component).Because(err)
	}
	if o.model, err = openModel(ctx, o.cfg); err != nil {
		return store.Pool{}, err
	}
	if err = o.openStore(ctx); err != nil {
		return store.Pool{}, err
	}
	o.journal = newJournal(o.store, o.cfg.Tell)
	o.writer.Go(func() { o.journal.write(o.ctx) })
	if o.cache, err = weights.OpenCache(o.cacheFolder()); err != nil {
		return store.Pool{}, err
	}
	if err := o.closeOrphans(ctx); err != nil {
		return store.Pool{}, err
	}
	if err := o.giveBack(ctx); err != nil {
		return store.Pool{}, err
	}
	pool, err := o.definePool(ctx)
	if err != nil {
		return store.Pool{}, err
	}
	o.journal.Tell(o.model.inspected())
	return pool, o.listen(key, pool)
}

func (o *Orch) key() (ed25519.PrivateKey, error) {
	if o.cfg.Key != nil {
		return o.cfg.Key, nil
	}
	return identity.LoadOrMake(o.cfg.KeyPath)
}

func (o *Orch) openStore(ctx context.Context) (err error) {
	if o.cfg.DataDir == "" {
		o.store, err = store.Memory(ctx)
		return err
	}
	o.store, err = store.Open(ctx, o.cfg.DataDir)
	return err
}

// cacheFolder is "" where slices are kept in files without names.
func (o *Orch) cacheFolder() string {
	if o.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(o.cfg.DataDir, "cache")
}

// closeOrphans gives the runs of a process that died their outcome.
func (o *Orch) closeOrphans(ctx context.Context) error {
	runs, err := o.store.UnfinishedRuns(ctx)
	for _, r := range runs {
		f := fault.New(fault.RunOrphaned, component)
		if err := o.store.EndRun(ctx, r.ID, store.Outcome{Result: store.Faulted, Fault: f, Ended: time.Now()}); err != nil {
			return err
		}
		o.journal.Tell(event.RunEnded{Run: r.ID, Outcome: string(store.Faulted), Fault: f})
	}
	return err
}

// listen opens the endpoint and the member on it.
func (o *Orch) listen(key ed25519.PrivateKey, pool store.Pool) error {
	var err error
	o.member, err = member.New(member.Config{
		Self: o.self, Boot: o.boot, Pool: pool.Name, Profile: o.figures.profile, Epoch: pool.Epoch,
		Facts: o.seen, Read: o.read, Tell: o.journal.Tell,
		Log: func(line string) { o.cfg.Log("memberlist", line) },
	})
	if err != nil {
		return err
	}
	o.table = edge.NewTable(edge.TableConfig{})
	o.endpoint, err = endpoint.Open(endpoint.Config{
		Key: key, Listen: o.cfg.Listen, Tell: o.journal.Tell, Protocols: o.protocols(),
	})
	if err != nil {
		return err
	}
	o.calls = control.NewCaller(func(ctx context.Context, peer id.NodeID) (control.Stream, error) {
		return o.endpoint.OpenStream(ctx, peer, control.Protocol)
	})
	if err := o.member.Start(member.Over(o.endpoint)); err != nil {
		return err
	}
	return o.member.Join(o.ctx, nil)
}

// prepare reads the model and starts the tokenizer, while nodes boot.
func (o *Orch) prepare(tokenize bool) {
	progress := progressOf(func(done, total int64) {
		o.journal.Tell(event.SliceProgressed{Slice: "checksums", Done: done, Total: total})
	})
	if err := o.model.digest(o.ctx, o.cache, progress); err != nil {
		o.fail(err)
		return
	}
	o.journal.Tell(event.ModelPublished{Model: o.model.name, Revision: o.model.manifest.Revision, Bytes: o.model.file.Size()})
	o.post(modelPublished{})
	if !tokenize {
		return
	}
	slice, err := o.model.vocabularySlice(o.ctx, o.cache)
	if err != nil {
		o.fail(err)
		return
	}
	o.slice.Store(slice)
	t := &tokenizer{cfg: o.cfg, tell: o.journal.Tell}
	t.keep(o.ctx, slice, func(v *wire.Vocab, err error) {
		if err != nil {
			o.fail(err)
			return
		}
		o.speak(t, v)
	})
}

// progressOf thins progress to ten reports a second.
func progressOf(tell func(done, total int64)) func(done, total int64) {
	var last time.Time
	return func(done, total int64) {
		if now := time.Now(); now.Sub(last) >= 100*time.Millisecond {
			last = now
			tell(done, total)
		}
	}
}
