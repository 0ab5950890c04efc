package member

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"

	"muster/internal/id"
)

// What it costs to know the true states of a pool of this size.
func BenchmarkReadBack(b *testing.B) {
	for _, count := range []int{10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", count), func(b *testing.B) {
			m := lonely(b, nil)
			fill(b, m, count)
			b.ResetTimer()
			for range b.N {
				rows, err := m.readBack()
				if err != nil || len(rows) != count+1 {
					b.Fatalf("%d rows, %v", len(rows), err)
				}
			}
		})
	}
}

// fill tells a member of count nodes, as a peer does that it exchanges views
// with.
func fill(b *testing.B, m *Member, count int) {
	b.Helper()
	rows := make([]row, count)
	ids := make([]id.NodeID, count)
	for i := range rows {
		ids[i] = id.NodeID{1, byte(i), byte(i >> 8)}
		rows[i] = row{
			Name: ids[i].String(), Addr: net.ParseIP(nowhere).To4(), Port: nowherePort, Incarnation: 1,
			Meta: meta{boot: id.BootID{1}}.encode(), Vsn: []byte{1, 5, 2, 0, 0, 0},
		}
	}
	m.SetPeers(ids)
	ours, theirs := net.Pipe()
	if !m.transport.offer(m.ctx, theirs) {
		b.Fatal("the library takes no stream")
	}
	if err := memberlist.AddLabelHeaderToStream(ours, m.cfg.Pool); err != nil {
		b.Fatal(err)
	}
	out := bufio.NewWriter(ours)
	encoder := codec.NewEncoder(out, &codec.MsgpackHandle{})
	_ = out.WriteByte(pushPull)
	for _, err := range []error{encoder.Encode(exchange{Nodes: count}), encoder.Encode(rows[0])} {
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range rows[1:] {
		if err := encoder.Encode(r); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, ours); err != nil { // until it is done
		b.Fatal(err)
	}
	pollUntil(b, func() bool {
		rows, err := m.readBack()
		return err == nil && len(rows) == count+1
	})
}
