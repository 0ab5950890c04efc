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
// not asked about: it is refused right after, and costs nothing.
func (o *Orch) accept(s *session, r Request, prompt int) error {
	context := o.model.recipe.Context
	if r.Accept == nil || prompt == 0 || prompt >= context {
		return nil
	}
	return r.Accept(credit.In(context, s.key.Run, prompt, r.MaxTokens))
}
