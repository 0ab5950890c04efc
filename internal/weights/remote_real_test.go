//go:build linux || darwin

package weights

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"time"

	"muster/internal/endpoint"
	"muster/internal/fault"
	"muster/internal/gguf"
	"muster/internal/id"
)

// peers are two endpoints, of which the second serves reads.
func peers(t testing.TB, lookup Lookup) (a, b *endpoint.Endpoint) {
	t.Helper()
	open := func(protocol endpoint.Protocol) *endpoint.Endpoint {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		e, err := endpoint.Open(endpoint.Config{Key: key, Listen: "127.0.0.1:0", Protocols: []endpoint.Protocol{protocol}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := e.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	a = open(endpoint.Protocol{Name: Protocol})
	b = open(endpoint.Protocol{Name: Protocol, Bidi: func(ctx context.Context, _ id.NodeID, s endpoint.Stream) {
		_ = ServeReads(ctx, s, lookup) // what is wrong is told to the peer, which the tests look at
	}})
	a.Permit(1, map[id.NodeID][]string{b.ID(): {b.Addr().String()}})
	b.Permit(1, map[id.NodeID][]string{a.ID(): {a.Addr().String()}})
	return a, b
}

func remoteBetween(t testing.TB, a, b *endpoint.Endpoint, revision string, sizes ...int64) *Remote {
	r := NewRemote(t.Context(), func(ctx context.Context) (Stream, error) { return a.OpenStream(ctx, b.ID(), Protocol) }, revision, sizes)
	t.Cleanup(r.Close)
	return r
}

// split cuts a model into so many parts in memory.
func split(t testing.TB, f *gguf.File, count int) [][]byte {
	t.Helper()
	number := func(key string, v int) gguf.KV {
		return gguf.KV{Key: key, Type: gguf.KeyUint16, Value: []byte{byte(v), byte(v >> 8)}}
	}
	var parts [][]byte
	for part := range count {
		kvs := []gguf.KV{number("split.no", part), number("split.count", count)}
		if part == 0 {
			kvs = append(kvs, f.KVs...)
		}
		var infos []gguf.Info
		var held []gguf.Tensor
		for i, x := range f.Tensors {
			if i*count/len(f.Tensors) == part {
				infos, held = append(infos, gguf.Info{Name: x.Name, Dims: x.Dims, Type: x.Type}), append(held, x)
			}
		}
		var b bytes.Buffer
		err := gguf.Write(&b, kvs, infos, func(i int, w io.Writer) error {
			_, err := io.Copy(w, f.Data(held[i]))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b.Bytes())
	}
	return parts
}

// TestSliceOfASplitModelThroughTheEndpoint makes a slice in a cache from parts
// that another node has.
func TestSliceOfASplitModelThroughTheEndpoint(t *testing.T) {
	s := newSubject(t)
	parts := split(t, s.file, 3)
	a, b := peers(t, func(revision string, part int) (io.ReaderAt, int64, error) {
		if revision != s.man.Revision {
			return nil, 0, errors.New("nobody published it")
		}
		return bytes.NewReader(parts[part]), int64(len(parts[part])), nil
	})
	r := remoteBetween(t, a, b, s.man.Revision, int64(len(parts[0])), int64(len(parts[1])), int64(len(parts[2])))
	var sources []gguf.Source
	for i, p := range parts {
		sources = append(sources, gguf.Source{In: r.Part(i), Size: int64(len(p)), Name: "there"})
	}
	f, err := gguf.ReadParts(sources)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gguf.Inspect(f)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := gguf.PlanSlice(f, m, s.plan.Range)
	if err != nil {
		t.Fatal(err)
	}
	got, err := open(t, t.TempDir()).Slice(t.Context(), plan, f, s.man, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	slice, err := io.ReadAll(io.NewSectionReader(got.File(), 0, got.Size()))
	if err != nil || !bytes.Equal(slice, s.want) {
		t.Errorf("the slice's bytes are others (%v)", err)
	}

	_, err = remoteBetween(t, a, b, "another", 100).Part(0).ReadAt(make([]byte, 10), 0)
	wantCode(t, err, fault.WeightsRevisionUnknown)
	_, err = remoteBetween(t, a, b, s.man.Revision, int64(len(parts[0]))+1).Part(0).ReadAt(make([]byte, 10), int64(len(parts[0]))-9)
	wantCode(t, err, fault.WeightsSourceTruncated)
}

// BenchmarkRemote reads 64 MiB in line through loopback, as a slice is
// written.
func BenchmarkRemote(b *testing.B) {
	data := noise(64 << 20)
	x, y := peers(b, offering("r", bytes.NewReader(data), int64(len(data))))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := remoteBetween(b, x, y, "r", int64(len(data)))
		if n, err := io.Copy(io.Discard, io.NewSectionReader(r.Part(0), 0, int64(len(data)))); err != nil || n != int64(len(data)) {
			b.Fatal(n, err)
		}
		r.Close()
	}
}
