package weights

import (
	"context"
	"errors"
	"time"

	"muster/internal/fault"
)

// fetch makes q the block, over as many streams as it takes while each brings
// something.
func (r *Remote) fetch(q span) error {
	if cap(r.block) < q.n {
		r.block = make([]byte, 0, q.n)
	}
	r.block, r.at = r.block[:0], q
	for tries := 0; len(r.block) < q.n; {
		before := len(r.block)
		err := r.receive(q)
		if err == nil {
			break
		}
		r.drop()
		if f := final(err); f != nil {
			return f
		}
		if tries++; len(r.block) > before {
			tries = 0
		}
		if tries >= r.patience.tries {
			at := q.offset + int64(len(r.block))
			return fault.New(fault.WeightsFetchFailed, remoteComponent, "part", q.part, "at", at, "tries", tries).Because(err)
		}
		if err := r.wait(tries); err != nil {
			return err
		}
	}
	return nil
}

// receive reads the rest of q into the block, on a stream that it opens where
// there is none or q was not asked for ahead.
func (r *Remote) receive(q span) error {
	asked := r.ahead == q
	r.ahead = span{}
	if r.stream == nil {
		if err := r.connect(); err != nil {
			return err
		}
		asked = false
	}
	if !asked {
		got := len(r.block)
		if err := r.ask(span{q.part, q.offset + int64(got), q.n - got}); err != nil {
			return err
		}
	}
	in := patient{r.stream, r.patience.silent}
	for len(r.block) < q.n {
		n, err := readSegment(in, q.n-len(r.block))
		if err != nil {
			return err
		}
		for n > 0 {
			got, err := in.Read(r.block[len(r.block):][:n])
			r.block, n = r.block[:len(r.block)+got], n-got
			if err != nil && n > 0 {
				return err
			}
		}
	}
	return nil
}

func (r *Remote) ask(q span) error {
	if err := r.stream.SetWriteDeadline(time.Now().Add(r.patience.silent)); err != nil {
		return err
	}
	_, err := r.stream.Write(request{r.revision, q}.append(nil))
	return err
}

func (r *Remote) connect() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.patience.open)
	defer cancel()
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	r.stream = s
	r.disarm = context.AfterFunc(r.ctx, func() { s.Cancel(0) })
	return nil
}

// drop gives the stream up, with what is on its way.
func (r *Remote) drop() {
	r.ahead = span{}
	if r.stream != nil {
		r.disarm()
		r.stream.Cancel(0)
		r.stream = nil
	}
}

// wait pauses after so many tries in vain.
func (r *Remote) wait(tries int) error {
	pause := r.patience.pause << tries / 2
	if tries == 0 {
		pause = 0
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.ctx.Done():
		return fault.New(fault.RunInterrupted, remoteComponent).Because(context.Cause(r.ctx))
	}
}

// final is the fault that another stream would not mend, nil where one may: the
// serving side has said it, or does not keep to the protocol.
func final(err error) *fault.Fault {
	var said *told
	switch {
	case errors.As(err, &said):
		return said.f
	case errors.Is(err, fault.WeightsReplyInvalid):
		return fault.From(err)
	}
	return nil
}

// patient reads a stream that may be silent for so long.
type patient struct {
	s      Stream
	silent time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.s.SetReadDeadline(time.Now().Add(p.silent)); err != nil {
		return 0, err
	}
	return p.s.Read(b)
}
