package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"muster/internal/core/credit"
	"muster/internal/fault"
	"muster/internal/store"
)

// delivery is when the tokens of an answer reach who asked.
type delivery bool

const (
	whole   delivery = false // all of them at its end
	flowing delivery = true  // each as it comes
)

// Writes that end a reservation: how often and with what pause.
const (
	settleTries = 3
	settlePause = 200 * time.Millisecond
)

// pledged is Generate, at the cost of the key that the request came with.
//
// The credit is reserved when the request has been admitted and its prompt is
// known, before anything is computed. It is charged by how that came out:
//
//   - answered to its end and delivered: prompt and answer;
//   - ended by emit, whose error says that no more is wanted: prompt and the
//     tokens that emit took;
//   - the client has gone: the same where the answer was flowing, else nothing,
//     as none of it was delivered;
//   - a fault, or this gateway is closing: nothing.
//
// What was not charged is given back. Where the process dies in between, the
// next one gives back all.
//
// Who calls it says by settle whether an answer was delivered; what failed is
// settled already.
func (b Backend) pledged(ctx context.Context, p Prompt, how delivery, emit func(text string) error) (done Done, settle func(delivered bool), err error) {
	nothing := func(bool) {}
	k, ok := ctx.Value(keyOfRequest{}).(store.Key)
	if !ok {
		done, err = b.Generate(ctx, p, emit)
		return done, nothing, err
	}
	c := charge{accounts: b.Accounts, key: k, request: rand.Text()}
	p.Accept = func(w credit.Work) error { return c.reserve(ctx, w) }
	ending, took, refused := credit.Faulted, 0, error(nil)
	defer func() { // also where Generate panics
		if settle == nil {
			settle = nothing
			c.end(ctx, ending, took)
		}
	}()
	done, err = b.Generate(ctx, p, func(text string) error {
		if c.work == nil {
			return fault.New(fault.InternalUnexpected, component).Because(errUnreserved)
		}
		if refused = emit(text); refused == nil {
			took++
		}
		return refused
	})
	switch {
	case err == nil:
		ending, took = credit.Answered, len(done.Tokens)
	case b.closing != nil && b.closing():
	case refused != nil && errors.Is(err, refused):
		ending = credit.Ended
	case how == flowing && ctx.Err() != nil && errors.Is(err, fault.RunInterrupted):
		ending = credit.Ended
	}
	if err != nil {
		c.why = fault.From(err).Code
	}
	if err == nil || errors.Is(err, errStopped) {
		settle = func(delivered bool) {
			if !delivered {
				ending = credit.Faulted
			}
			c.end(ctx, ending, took)
		}
	}
	return done, settle, err
}

var errUnreserved = errors.New("an answer was begun for which nothing was reserved")

// charge is the account of one request.
type charge struct {
	accounts store.Accounts
	key      store.Key
	request  string
	work     *credit.Work // nil: nothing is reserved
	why      fault.Code   // it failed
}

// reserve is done whether or not the client has gone meanwhile: a write that was
// given up may have come to pass.
func (c *charge) reserve(ctx context.Context, w credit.Work) error {
	ctx = context.WithoutCancel(ctx) // the store has a deadline of its own
	err := c.accounts.Reserve(ctx, store.Reservation{
		Request: c.request, Key: c.key.ID, Run: w.Run, Tokens: w.Reserved(), Time: time.Now(),
	})
	if err == nil {
		c.work = &w
	}
	return err
}

// end settles what was delivered. What cannot be written stays reserved, and is
// given back by the next start: never is more charged than was delivered.
func (c *charge) end(ctx context.Context, e credit.Ending, delivered int) {
	if c.work == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for range settleTries {
		err := c.write(ctx, c.work.Charge(e, delivered))
		if err == nil || fault.From(err).Code.Entry().Retry != fault.Later {
			return
		}
		<-time.After(settlePause)
	}
}

func (c *charge) write(ctx context.Context, cost int64) error {
	if cost == 0 {
		return c.accounts.Release(ctx, c.request, string(c.why), time.Now())
	}
	return c.accounts.Settle(ctx, c.request, cost, time.Now())
}
