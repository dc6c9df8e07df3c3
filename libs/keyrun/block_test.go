package keyrun

import (
	"bytes"
	"errors"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// FuzzBlock: a block whose checksum is right may hold anything.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{1, 2, 60} {
		var entries []Entry
		for i := range n {
			low := kafkapos.Offset(100 + i)
			entries = append(entries, Entry{Hash: Hash{byte(4 * i), 1, 9: byte(i)}, Lowest: low, Highest: low + kafkapos.Offset(i%3)})
		}
		var b bytes.Buffer
		if _, err := Write(&b, kafkapos.Range{Start: 100, End: 1000}, entries); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes()[:b.Len()-footSize-2*indexEntry-filterSize], int64(1000))
	}
	f.Fuzz(func(t *testing.T, raw []byte, end int64) {
		if len(raw) < blockHead || len(raw) > blockSize || end <= 100 {
			return
		}
		s := shape{rng: kafkapos.Range{Start: 100, End: kafkapos.Offset(end)}, blocks: 1, last: len(raw)}
		b, err := s.openBlock(0, append(bytes.Clone(raw), make([]byte, slack)...)[:len(raw)])
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		rank := 0
		for i := range b.n {
			e := b.entry(i, rank)
			if b.many(i) {
				rank++
			}
			if k, ok := b.find(e.Hash); ok && b.entry(k, b.rank(k)).Hash != e.Hash {
				t.Fatalf("entry %d: found %d, which is another", i, k)
			}
			if b.lowest(i) != e.Lowest || b.highest(i) != e.Highest && b.many(i) {
				t.Fatalf("entry %d: %d to %d, want %d to %d", i, b.lowest(i), b.highest(i), e.Lowest, e.Highest)
			}
		}
		b.find(Hash{})
		b.find(Hash{0xff, 0xff, 0xff})
	})
}
