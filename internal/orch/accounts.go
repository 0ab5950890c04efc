package orch

import (
	"context"
	"time"

	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/store"
)

// giveBack releases the credit that was set aside for the requests of a process
// that died: nobody can say what of them was delivered.
func (o *Orch) giveBack(ctx context.Context) error {
	open, err := o.store.OpenReservations(ctx)
	for _, r := range open {
		if err := o.store.Release(ctx, r.Request, string(fault.KeyReservationOrphaned), time.Now()); err != nil {
			return err
		}
	}
	return err
}

// Accounts are the keys of clients and their credit.
func (o *Orch) Accounts() store.Accounts { return o.store }

// accept asks whether a request is to be answered. One whose prompt cannot be is
// not asked about: it is refused right after, and costs nothing. That the run holds
// its routes is asked once more, since reading the prompt took a while.
func (o *Orch) accept(ctx context.Context, s *session, r Request, prompt int) error {
	share := o.model.recipe.Share()
	if r.Accept == nil || prompt == 0 || prompt >= share {
		return nil
	}
	blockers, err := o.Admitted(ctx)
	if err != nil {
		return err
	}
	if len(blockers) > 0 {
		return blockers[0].Fault
	}
	return r.Accept(credit.In(share, s.key.Run, prompt, r.MaxTokens))
}
