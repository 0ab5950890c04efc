package orch

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"muster/internal/control"
	"muster/internal/edge"
	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/infer"
	"muster/internal/machine"
	"muster/internal/member"
	"muster/internal/store"
	"muster/internal/tracker"
	"muster/internal/weights"
	"muster/internal/wire"
)

// How long the parts of an orchestrator may take to end.
const (
	drainWithin = 10 * time.Second // for the answers that run
	stopWithin  = 15 * time.Second // a run's teardown has a deadline of its own
	leaveWithin = time.Second
	closeWithin = 5 * time.Second
)

// Orch is a running orchestrator. Its methods may be called from any goroutine.
type Orch struct {
	cfg     Config
	figures figures
	self    id.NodeID
	boot    id.BootID
	began   time.Duration

	store     *store.Store
	journal   *journal
	model     *model
	cache     *weights.Cache
	slice     atomic.Pointer[weights.Slice] // of the tokenizer
	text      text
	words     atomic.Pointer[infer.Words]
	member    *member.Member
	endpoint  *endpoint.Endpoint
	table     *edge.Table
	calls     *control.Caller
	tracker   *tracker.Tracker
	admission admission

	mail    chan letter
	session atomic.Pointer[session]
	members atomic.Pointer[map[id.NodeID]bool] // of the pool, for the border

	ctx     context.Context // ends with the cause of the orchestrator's end
	end     context.CancelCauseFunc
	tasks   sync.WaitGroup // everything that posts, and the mailbox
	writer  sync.WaitGroup // the journal's
	closing sync.Once
	closed  error
}

// text turns a prompt into tokens.
type text interface {
	tokens(ctx context.Context, text string) ([]int32, error)
}

// Run is an orchestrator from its start until ctx ends or it fails; then the
// run is stopped and everything ended. started is called once it listens.
func Run(ctx context.Context, cfg Config, started func(*Orch)) error {
	o, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	started(o)
	select {
	case <-ctx.Done():
	case <-o.Done():
		err = o.Err()
	}
	after := context.WithoutCancel(ctx)
	ending, cancel := context.WithTimeout(after, o.cfg.Drain+stopWithin)
	defer cancel()
	stopped := o.Stop(ending, false)
	return errors.Join(err, stopped, o.Close(after))
}

// Start opens everything an orchestrator is made of and listens. The model is
// read and its tokenizer started meanwhile. On an error nothing is left.
func Start(ctx context.Context, cfg Config) (*Orch, error) {
	return start(ctx, cfg, nil)
}

// start takes the tokenizer of a test, where there is one.
func start(ctx context.Context, cfg Config, fake func(*Orch)) (*Orch, error) {
	fig, err := cfg.settle()
	if err != nil {
		return nil, err
	}
	o := &Orch{cfg: cfg, figures: fig, began: machine.Boottime(), mail: make(chan letter, 256)}
	o.ctx, o.end = context.WithCancelCause(context.WithoutCancel(ctx))
	o.admission.ready = make(chan struct{}, 1)
	o.tracker = tracker.New(tracker.Config{Owner: registrar{o}, Now: o.now})
	pool, err := o.open(ctx)
	if err != nil {
		o.end(err)
		_ = o.release(context.WithoutCancel(ctx)) // why it did not start is what counts
		return nil, err
	}
	m := newMailbox(o, pool)
	o.tasks.Go(m.loop)
	o.tasks.Go(func() { o.tracker.Run(o.ctx) })
	if fake != nil {
		fake(o)
	}
	o.tasks.Go(func() { o.prepare(fake == nil) })
	o.tasks.Go(o.watchEndpoint)
	return o, nil
}

// speak makes the orchestrator able to take prompts.
func (o *Orch) speak(t text, v *wire.Vocab) {
	o.text = t
	o.words.Store(infer.NewWords(v))
}

func (o *Orch) watchEndpoint() {
	select {
	case <-o.endpoint.Done():
		o.fail(o.endpoint.Err())
	case <-o.ctx.Done():
	}
}

// fail ends the orchestrator by its first fault.
func (o *Orch) fail(err error) {
	if o.ctx.Err() == nil {
		o.end(fault.From(err))
	}
}

// now is the time of the cores.
func (o *Orch) now() time.Duration { return machine.Boottime() - o.began }

// post hands the mailbox a letter, unless it has ended.
func (o *Orch) post(l letter) {
	select {
	case o.mail <- l:
	case <-o.ctx.Done():
	}
}

// ID is the orchestrator's node id, and Address where it listens.
func (o *Orch) ID() id.NodeID { return o.self }

// Address is a UDP address at which nodes reach the orchestrator: the one it is
// bound to, or where that is all of them the first of this machine's.
func (o *Orch) Address() string {
	at := o.endpoint.Addr()
	if !at.Addr().IsUnspecified() {
		return at.String()
	}
	best := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for _, ip := range machine.Addresses() {
		if !ip.IsLoopback() {
			best = ip
			break
		}
	}
	return netip.AddrPortFrom(best, at.Port()).String()
}

// Done is closed when the orchestrator has failed or was closed.
func (o *Orch) Done() <-chan struct{} { return o.ctx.Done() }

// Err is why the orchestrator ended by itself, nil where it did not.
func (o *Orch) Err() error {
	if cause := context.Cause(o.ctx); cause != nil && !errors.Is(cause, fault.RunInterrupted) {
		return cause
	}
	return nil
}

// Close ends everything at once, without a word to the nodes about their stages
// (see Stop), and waits until ctx ends. It may be called again.
func (o *Orch) Close(ctx context.Context) error {
	o.closing.Do(func() {
		o.end(fault.New(fault.RunInterrupted, component))
		o.closed = o.release(ctx)
	})
	return o.closed
}

// release frees what has been opened, the latest first.
func (o *Orch) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	var errs []error
	if o.member != nil && o.endpoint != nil {
		leaving, cancel := context.WithTimeout(ctx, leaveWithin)
		_ = o.member.Leave(leaving) // else the nodes see it die instead
		cancel()
	}
	if o.member != nil {
		errs = append(errs, o.member.Close(ctx))
	}
	o.tasks.Wait()
	if o.endpoint != nil {
		errs = append(errs, o.endpoint.Close(ctx))
	}
	if slice := o.slice.Load(); slice != nil {
		errs = append(errs, slice.Close())
	}
	o.writer.Wait()
	if o.store != nil {
		errs = append(errs, o.store.Close())
	}
	if o.model != nil {
		errs = append(errs, o.model.close())
	}
	return errors.Join(errs...)
}
