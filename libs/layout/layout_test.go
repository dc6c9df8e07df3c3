package layout_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/sealed"
)

// TestRowGroupsCoverTheRangeAlignedAndFew: for any range and block size.
func TestRowGroupsCoverTheRangeAlignedAndFew(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		log2 := 2 * r.IntN(10)
		start := kafkapos.Offset(r.Int64N(1 << 22))
		rng := kafkapos.Range{Start: start, End: start + kafkapos.Offset(r.Int64N(1<<r.IntN(21)))}
		m := kafkapos.Offset(min(1024, 1<<log2))
		at, rests := rng.Start, 0
		for _, g := range layout.RowGroups(rng, log2) {
			size := g.End - g.Start
			if g.Start != at || g.Empty() || size > 1<<log2 {
				t.Fatalf("%s, block 2^%d: group %s after %d", rng, log2, g, at)
			}
			if full := size&(size-1) == 0 && size >= m && g.Start%size == 0; !full {
				rests++
				if size >= m || g.Start != rng.Start && g.End != rng.End {
					t.Fatalf("%s, block 2^%d: group %s is no rest", rng, log2, g)
				}
			}
			at = g.End
		}
		if at != rng.End || rests > 2 {
			t.Fatalf("%s, block 2^%d: groups end at %d, %d rests", rng, log2, at, rests)
		}
	}
}

// random is a layout with a plain copy of its classes.
func random(t *testing.T, r *rand.Rand) (*layout.Layout, []layout.Class) {
	t.Helper()
	log2 := 1 + r.IntN(18)
	chunk := kafkapos.Offset(r.IntN(3)) << log2
	start := chunk + kafkapos.Offset(r.IntN(1<<log2))
	rng := kafkapos.Range{Start: start, End: start + 1 + kafkapos.Offset(r.Int64N(int64(chunk+1<<log2-start)))}
	b, err := layout.NewBuilder(rng, log2)
	if err != nil {
		t.Fatal(err)
	}
	classes := make([]layout.Class, rng.End-chunk)
	for off := rng.Start; off < rng.End; off++ {
		if off%1000 > 300 {
			classes[off-chunk] = layout.Row
		} else {
			classes[off-chunk] = layout.Class(r.IntN(6))
		}
		if err := b.Add(off, classes[off-chunk]); err != nil {
			t.Fatal(err)
		}
	}
	ls, err := b.Layouts()
	if err != nil || len(ls) != 1 {
		t.Fatalf("%d layouts, %v", len(ls), err)
	}
	return ls[0], classes
}

// TestPositionIsTheRankInTheFile: against a count by hand, also of batches of every density.
func TestPositionIsTheRankInTheFile(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		l, classes := random(t, r)
		chunk := l.ChunkStart()
		file := l.Range()
		if r.IntN(2) == 0 {
			file.Start += kafkapos.Offset(r.Int64N(file.Len()))
			file.End -= kafkapos.Offset(r.Int64N(file.Len()))
		}
		set, want := roaring.New(), roaring.New()
		every := 1 << r.IntN(14)
		rows := uint32(0)
		for rel, c := range classes {
			off := chunk + kafkapos.Offset(rel)
			chosen := r.IntN(every) == 0
			if chosen {
				set.Add(uint32(rel))
			}
			if !file.Contains(off) || c != layout.Row {
				continue
			}
			if chosen {
				want.Add(rows)
			}
			rows++
		}
		if got := l.Positions(layout.CurrentRows, file, set); !got.Equals(want) {
			t.Fatalf("file %s of %s, one in %d: %d positions, want %d", file, l.Range(), every, got.GetCardinality(), want.GetCardinality())
		}
		if got := l.Rows(file); got != int64(rows) {
			t.Fatalf("file %s: %d rows, want %d", file, got, rows)
		}
	}
}

func TestCodecRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		l, classes := random(t, r)
		b, err := l.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		back, err := layout.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		for rel, want := range classes {
			off := l.ChunkStart() + kafkapos.Offset(rel)
			if got, ok := back.Class(off); ok != l.Range().Contains(off) || ok && got != want {
				t.Fatalf("offset %d: class %d %t, want %d", off, got, ok, want)
			}
		}
		again, err := back.Bytes()
		if err != nil || !bytes.Equal(b, again) {
			t.Fatalf("the bytes of a parsed layout differ: %v", err)
		}
		flipped := bytes.Clone(b)
		flipped[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if _, err := layout.Parse(flipped); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
}

// FuzzParse: no bytes may do more than fail, also under a right checksum.
func FuzzParse(f *testing.F) {
	b, err := layout.NewBuilder(kafkapos.Range{Start: 70, End: 100}, 6)
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(b.Add(71, layout.Row), b.Add(72, layout.Delete), b.AddNonRow(kafkapos.Range{Start: 80, End: 90})); err != nil {
		f.Fatal(err)
	}
	ls, err := b.Layouts()
	if err != nil {
		f.Fatal(err)
	}
	raw, err := ls[0].Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > sealed.Overhead {
			b = sealed.End(bytes.Clone(b[:len(b)-4]))
		}
		l, err := layout.Parse(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		l.Rows(l.Range())
	})
}

// TestTheFormatIsFrozen: bytes of version 1 that are out there stay readable, and are written the same.
func TestTheFormatIsFrozen(t *testing.T) {
	b, err := layout.NewBuilder(kafkapos.Range{Start: 70, End: 100}, 6)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Add(71, layout.Row), b.Add(73, layout.Row), b.Add(72, layout.Delete), b.AddNonRow(kafkapos.Range{Start: 80, End: 90})); err != nil {
		t.Fatal(err)
	}
	ls, err := b.Layouts()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ls[0].Bytes()
	const want = "465a4c5901400000000000000046000000000000006400000000000000143a30000001000000000001001000000007000900123a3000000100000000" +
		"0000001000000008000f3b3000000100000900010010000900083a30000000000000083a30000000000000008cef52"
	if got := hex.EncodeToString(raw); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}
