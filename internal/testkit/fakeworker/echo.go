package fakeworker

import (
	"context"
	"io"
	"os"
	"time"

	"muster/internal/arena"
	"muster/internal/wire"
	"muster/internal/worker/child"
)

// joined keeps the ends of the rings from being collected.
var joined []any

// echo joins the rings of an attach and answers what it is asked to echo. Its
// ends stay attached until the process ends, as a worker's do.
func echo(a wire.Attach, wrong bool) {
	in, out, err := join(a)
	if err != nil {
		die(err)
	}
	joined = append(joined, in, out)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := make([]byte, wire.EchoSize)
	if _, err := io.ReadFull(in.Reader(ctx), b); err != nil {
		die(err)
	}
	if !wrong {
		wire.Echo(b)
	}
	if err := out.Write(ctx, b); err != nil {
		die(err)
	}
}

func join(a wire.Attach) (*arena.Consumer, *arena.Producer, error) {
	file, err := child.Descriptor(a.ArenaFD, "arena")
	if err != nil {
		return nil, nil, err
	}
	mem, err := arena.Map(file, a.ArenaSize)
	if err != nil {
		return nil, nil, err
	}
	in, err := end(a.In, mem.Consumer)
	if err != nil {
		return nil, nil, err
	}
	out, err := end(a.Out, mem.Producer)
	return in, out, err
}

// end attaches to one end of a ring.
func end[E any](e wire.RingEnd, attach func(arena.Place, *os.File, *os.File) (E, error)) (none E, err error) {
	wait, err := child.Descriptor(e.WaitFD, "doorbell")
	if err != nil {
		return none, err
	}
	ring, err := child.Descriptor(e.RingFD, "doorbell")
	if err != nil {
		return none, err
	}
	return attach(arena.Place{Ring: e.Ring, Offset: e.Offset, Capacity: e.Capacity}, wait, ring)
}
