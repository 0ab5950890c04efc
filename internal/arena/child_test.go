//go:build unix

package arena

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// childEnv holds the order of a child: this test binary, run again, is the other
// process.
const childEnv = "MUSTER_ARENA_TEST_CHILD"

// order is what a child is told. Its descriptors begin at 3: the arena, then
// wait and ring of its consumer, then wait and ring of its producer.
type order struct {
	Size    int64
	In, Out Place
	Plain   int // send records of so many bytes back unread, where not 0
}

// beChild verifies blocks from one ring and sends them back through another
// until the stream ends, and is the process' exit code.
func beChild() int {
	err := func() error {
		var o order
		if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &o); err != nil {
			return err
		}
		in, out, err := o.attach()
		if err != nil {
			return err
		}
		if o.Plain > 0 {
			err = echo(context.Background(), in, out, o.Plain)
		} else {
			err = relay(in, out)
		}
		if err != nil {
			return err
		}
		return errors.Join(in.Detach(), out.Detach())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func (o order) attach() (*Consumer, *Producer, error) {
	a, err := Map(os.NewFile(3, "arena"), o.Size)
	if err != nil {
		return nil, nil, err
	}
	var files [4]*os.File
	for i := range files {
		if files[i], err = OpenDoorbell(uintptr(4 + i)); err != nil {
			return nil, nil, err
		}
	}
	in, err := a.Consumer(o.In, files[0], files[1])
	if err != nil {
		return nil, nil, err
	}
	out, err := a.Producer(o.Out, files[2], files[3])
	return in, out, err
}

func relay(in *Consumer, out *Producer) error {
	from := in.Reader(context.Background())
	for {
		b, err := readBlock(from)
		if err == io.EOF {
			out.CloseWrite()
			return nil
		}
		if err != nil {
			return err
		}
		in.Done()
		if err := out.Write(context.Background(), b); err != nil {
			return err
		}
		out.Commit()
	}
}

// A block is its length, a checksum of its bytes, and random bytes.
func newBlock(r *rand.Rand, n int) []byte {
	b := make([]byte, 8, 16+n)
	for len(b) < 8+n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	b = b[:8+n]
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(b[8:]))
	return b
}

func readBlock(from io.Reader) ([]byte, error) {
	b := make([]byte, 8)
	if _, err := io.ReadFull(from, b); err != nil {
		return nil, err
	}
	n, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if n > 1<<24 {
		return nil, fmt.Errorf("a block of %d bytes", n)
	}
	b = append(b, make([]byte, n)...)
	if _, err := io.ReadFull(from, b[8:]); err != nil {
		return nil, err
	}
	if got := crc32.ChecksumIEEE(b[8:]); got != sum {
		return nil, fmt.Errorf("a block of %d bytes has the checksum %08x, not %08x", n, got, sum)
	}
	return b, nil
}

// child is a spawned relay with this process' ends of its two rings.
type child struct {
	cmd     *exec.Cmd
	to      *Producer
	from    *Consumer
	in, out *Lease
	said    bytes.Buffer // on its stderr; read once it is reaped
}

// spawn starts a relay over rings of capacity bytes in a.
func spawn(t testing.TB, a *Arena, capacity int) *child { return spawnPlain(t, a, capacity, 0) }

// spawnPlain starts one that sends records of plain bytes back unread.
func spawnPlain(t testing.TB, a *Arena, capacity, plain int) *child {
	t.Helper()
	c := &child{}
	var err error
	if c.in, err = a.Lease(capacity); err != nil {
		t.Fatal(err)
	}
	if c.out, err = a.Lease(capacity); err != nil {
		t.Fatal(err)
	}
	inPW, inPR, inCW, inCR := bells(t)
	outPW, outPR, outCW, outCR := bells(t)
	told, err := json.Marshal(order{Size: a.Size(), In: c.in.Place(), Out: c.out.Place(), Plain: plain})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(told))
	c.cmd.Stderr = &c.said
	c.cmd.ExtraFiles = []*os.File{a.File(), inCW, inCR, outPW, outPR}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{inCW, inCR, outPW, outPR} {
		f.Close()
	}
	t.Cleanup(func() {
		c.reap()
		if t.Failed() {
			t.Logf("the child said: %s", c.said.Bytes())
		}
	})
	if c.to, err = a.Producer(c.in.Place(), inPW, inPR); err != nil {
		t.Fatal(err)
	}
	if c.from, err = a.Consumer(c.out.Place(), outCW, outCR); err != nil {
		t.Fatal(err)
	}
	return c
}

// reap kills the child where it still runs and waits for it.
func (c *child) reap() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// leave lets go of this process' ends and of the leases; dead says that the
// child's ends are to be named.
func (c *child) leave(t testing.TB, dead bool) {
	t.Helper()
	var ofIn, ofOut []End
	if dead {
		ofIn, ofOut = []End{ConsumerEnd}, []End{ProducerEnd}
	}
	err := errors.Join(c.to.Detach(), c.from.Detach(), c.in.Release(ofIn...), c.out.Release(ofOut...))
	if err != nil {
		t.Fatal(err)
	}
}
