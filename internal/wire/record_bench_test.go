package wire

import (
	"bytes"
	"fmt"
	"testing"
)

// rowsOf is a record of a prefill chunk or of one token.
func rowsOf(tokens, width int) *Record {
	return &Record{Kind: KindRows, Width: width, Items: []Item{{Marks: MarkAnswer, Count: tokens}}, Rows: make([]float32, tokens*width)}
}

func BenchmarkRecord(b *testing.B) {
	lim := Limits{Items: 1, Tokens: 512, Width: 4096}
	for _, r := range []*Record{rowsOf(1, 2048), rowsOf(512, 2048), rowsOf(512, 4096)} {
		size := fmt.Sprintf("%dKiB", 4*len(r.Rows)>>10)
		b.Run("Append/"+size, func(b *testing.B) {
			b.SetBytes(int64(4 * len(r.Rows)))
			b.ReportAllocs()
			var buf []byte
			var err error
			for b.Loop() {
				if buf, err = r.Append(buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Read/"+size, func(b *testing.B) {
			encoded := encoded(b, r)
			from := bytes.NewReader(nil)
			var into Record
			b.SetBytes(int64(4 * len(r.Rows)))
			b.ReportAllocs()
			for b.Loop() {
				from.Reset(encoded)
				if err := ReadRecord(from, lim, &into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
