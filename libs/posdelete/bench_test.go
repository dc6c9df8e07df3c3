package posdelete_test

import (
	"io"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/posdelete"
)

func BenchmarkWriteRange(b *testing.B) {
	set := roaring.New()
	for i := uint32(0); i < 1_000_000; i += 3 {
		set.Add(i)
	}
	f, err := posdelete.New(path, set)
	if err != nil {
		b.Fatal(err)
	}
	for name, n := range map[string]int64{"whole": f.Size(), "end": 16 << 10} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				if err := f.WriteRange(io.Discard, f.Size()-n, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
