package marks_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/sealed"
	"github.com/frazil-io/frazil/libs/supersede"
)

func chunkLayout(t testing.TB, rng kafkapos.Range, log2 int, class func(kafkapos.Offset) layout.Class) *layout.Layout {
	t.Helper()
	b, err := layout.NewBuilder(rng, log2)
	if err != nil {
		t.Fatal(err)
	}
	for off := rng.Start; off < rng.End; off++ {
		if err := b.Add(off, class(off)); err != nil {
			t.Fatal(err)
		}
	}
	ls, err := b.Layouts()
	if err != nil || len(ls) != 1 {
		t.Fatalf("%d layouts, %v", len(ls), err)
	}
	return ls[0]
}

func segment(t testing.TB, log2 int, ms ...supersede.Mark) *marks.Segment {
	t.Helper()
	s, err := marks.NewSegment(ms, log2)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLedgerCountsPerContainer: in a chunk of several times 65 536 rows, with gaps, the counts of the ledger
// are those of the composed bitmap at every end for which it was kept.
func TestLedgerCountsPerContainer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const log2, size = 18, kafkapos.Offset(1 << 18)
	l := chunkLayout(t, kafkapos.Range{Start: size, End: 2 * size}, log2, func(off kafkapos.Offset) layout.Class {
		if off%5 == 0 {
			return layout.Delete
		}
		return layout.Row
	})
	chain := marks.Chain{Layout: l, Rows: layout.CurrentRows}
	var ledger marks.Ledger
	ends := []kafkapos.Offset{2 * size, 2*size + 700, 2*size + 1500}
	taken := map[kafkapos.Offset]bool{}
	for i, n := range []int{90_000, 3, 1, 5000} {
		var ms []supersede.Mark
		for len(ms) < n {
			older := size + kafkapos.Offset(r.Int64N(int64(size)))
			if !taken[older] {
				taken[older] = true
				ms = append(ms, supersede.Mark{Older: older, Newer: 2*size + kafkapos.Offset(500*i+r.IntN(500))})
			}
		}
		part := segment(t, log2, ms...).Chunk(size)
		chain.Parts = append(chain.Parts, part)
		var err error
		if ledger, err = ledger.Extend(l, layout.CurrentRows, part, ends); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range append(ends, 2*size+2000) {
		got, ok := ledger.At(end)
		want, err := chain.Tally(l.Range(), end)
		if err != nil || !ok || got.Marks != want.Marks || got.Newest != want.Newest || !slices.Equal(got.Containers, want.Containers) {
			t.Errorf("at %d: %+v %t, want %+v, %v", end, got, ok, want, err)
		}
	}
	if _, ok := ledger.At(2*size + 200); ok {
		t.Error("counts at an end for which they were not kept")
	}
}

// TestAFoldedGroupIsAllOrNothing: between its newer offsets it is retired, never a guess.
func TestAFoldedGroupIsAllOrNothing(t *testing.T) {
	l := chunkLayout(t, kafkapos.Range{Start: 0, End: 8}, 3, func(off kafkapos.Offset) layout.Class {
		if off == 3 {
			return layout.Delete
		}
		return layout.Row
	})
	parts := segment(t, 3, supersede.Mark{Older: 1, Newer: 10}, supersede.Mark{Older: 2, Newer: 12}, supersede.Mark{Older: 3, Newer: 14},
		supersede.Mark{Older: 4, Newer: 30}).Chunks()
	g := marks.Fold(l, layout.CurrentRows, []kafkapos.Offset{20}, 20, parts)[0]
	if low, high := g.Newers(); g.Len() != 2 || low != 10 || high != 12 {
		t.Fatalf("group of %d, %d to %d: the delete's mark is of another view", g.Len(), low, high)
	}
	chain := marks.Chain{Layout: l, Rows: layout.CurrentRows, Groups: []*marks.Group{g}}
	for e, want := range map[kafkapos.Offset]int{0: 0, 10: 0, 11: -1, 12: -1, 13: 2, 100: 2} {
		set, err := chain.DeleteSet(e)
		if want < 0 && !errors.Is(err, fault.ErrRetired) || want >= 0 && (err != nil || int(set.GetCardinality()) != want) {
			t.Errorf("at %d: %v, %v, want %d", e, set, err, want)
		}
	}
	chain.Rows = layout.DeletedKeyRows
	if _, err := chain.DeleteSet(100); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("the group of another view: %v", err)
	}
	if marks.Fold(l, layout.CurrentRows, []kafkapos.Offset{50}, 5, parts) != nil {
		t.Error("a group without marks")
	}
	if two := marks.Fold(l, layout.CurrentRows, []kafkapos.Offset{12, 20}, 20, parts); len(two) != 2 || two[0].Len() != 1 || two[1].Len() != 1 {
		t.Errorf("groups %v: a mark at an end counts above it", two)
	}
	if _, err := marks.MergeGroups(g, g); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("merged a group with itself: %v", err)
	}
}

func TestSegmentsRefuseWhatCannotBe(t *testing.T) {
	for name, ms := range map[string][]supersede.Mark{
		"superseded twice":    {{Older: 1, Newer: 5}, {Older: 1, Newer: 6}},
		"superseded by older": {{Older: 5, Newer: 4}},
		"by itself":           {{Older: 5, Newer: 5}},
		"below 0":             {{Older: -1, Newer: 5}},
	} {
		if _, err := marks.NewSegment(ms, 4); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, b := segment(t, 4, supersede.Mark{Older: 1, Newer: 5}), segment(t, 4, supersede.Mark{Older: 1, Newer: 6})
	if _, err := marks.Merge(a, b); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("merged segments with an event superseded twice: %v", err)
	}
}

func randomSegment(t testing.TB, r *rand.Rand) *marks.Segment {
	t.Helper()
	log2 := 1 + r.IntN(12)
	span := int64(1) << (log2 + r.IntN(4))
	base := kafkapos.Offset(r.Int64N(1 << 30))
	at := map[kafkapos.Offset]supersede.Mark{}
	for range r.IntN(3000) {
		older := base + kafkapos.Offset(r.Int64N(span))
		at[older] = supersede.Mark{Older: older, Newer: older + 1 + kafkapos.Offset(r.Int64N(1<<r.IntN(30)))}
	}
	var ms []supersede.Mark
	for _, m := range at {
		ms = append(ms, m)
	}
	return segment(t, log2, ms...)
}

func allMarks(s *marks.Segment) []supersede.Mark {
	var out []supersede.Mark
	for _, c := range s.Chunks() {
		out = slices.AppendSeq(out, c.All())
	}
	return out
}

func TestSegmentCodec(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 100 {
		s := randomSegment(t, r)
		b, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		back, err := marks.ParseSegment(b)
		if err != nil || !slices.Equal(allMarks(back), allMarks(s)) || back.Marks() != s.Marks() {
			t.Fatalf("%d marks, want %d, %v", back.Marks(), s.Marks(), err)
		}
		flipped := bytes.Clone(b)
		flipped[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if _, err := marks.ParseSegment(flipped); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
}

func sampleGroup(t testing.TB) *marks.Group {
	t.Helper()
	l := chunkLayout(t, kafkapos.Range{Start: 16, End: 32}, 4, func(kafkapos.Offset) layout.Class { return layout.Row })
	parts := segment(t, 4, supersede.Mark{Older: 17, Newer: 40}, supersede.Mark{Older: 20, Newer: 41}).Chunks()
	return marks.Fold(l, layout.CurrentRows, []kafkapos.Offset{50}, 50, parts)[0]
}

func TestGroupCodec(t *testing.T) {
	g := sampleGroup(t)
	b, err := g.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	back, err := marks.ParseGroup(b)
	if err != nil || back.Range() != g.Range() || back.Len() != g.Len() || back.Rows() != g.Rows() {
		t.Fatalf("%+v, %v", back, err)
	}
	for i := range len(b) * 8 {
		flipped := bytes.Clone(b)
		flipped[i/8] ^= 1 << (i % 8)
		if _, err := marks.ParseGroup(flipped); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("bit %d flipped: %v", i, err)
		}
	}
}

// reseal puts a right checksum under any body, so that a fuzzer gets past it.
func reseal(b []byte) []byte {
	if len(b) < sealed.Overhead {
		return b
	}
	return sealed.End(bytes.Clone(b[:len(b)-4]))
}

func FuzzParseSegment(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		b, err := randomSegment(f, r).Bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := marks.ParseSegment(reseal(b))
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for _, m := range allMarks(s) {
			if m.Newer <= m.Older {
				t.Fatalf("mark %v", m)
			}
		}
	})
}

func FuzzParseGroup(f *testing.F) {
	b, err := sampleGroup(f).Bytes()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := marks.ParseGroup(reseal(b)); err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func FuzzReadLedger(f *testing.F) {
	f.Add([]byte{1, 10, 5, 2, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := sealed.NewReader(b)
		g := marks.ReadLedger(r)
		if err := r.Done(); err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatal(err)
		}
		g.At(1 << 40)
	})
}

// TestTheFormatsAreFrozen: bytes of version 1 that are out there stay readable, and are written the same.
func TestTheFormatsAreFrozen(t *testing.T) {
	s := segment(t, 4, supersede.Mark{Older: 17, Newer: 40}, supersede.Mark{Older: 18, Newer: 19}, supersede.Mark{Older: 33, Newer: 1000})
	checkBytes(t, "segment", s,
		"465a534701021004011315143a300000010000000000010010000000010002001500200401e80700123a300000010000000000000010000000010000660aa0a2")
	checkBytes(t, "group", sampleGroup(t), "465a4752011010022801143a300000010000000000010010000000010004004a779b7b")
	ledger, err := marks.NewLedger(marks.Chain{
		Layout: chunkLayout(t, kafkapos.Range{Start: 16, End: 32}, 4, func(kafkapos.Offset) layout.Class { return layout.Row }),
		Rows:   layout.CurrentRows,
		Parts:  segment(t, 4, supersede.Mark{Older: 17, Newer: 40}, supersede.Mark{Older: 20, Newer: 41}).Chunks(),
	}, []kafkapos.Offset{41})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ledger.AppendBinary(nil)
	if got := hex.EncodeToString(b); err != nil || got != "022800010129000101" {
		t.Errorf("ledger: %s, %v", got, err)
	}
}

func checkBytes(t *testing.T, name string, v interface{ Bytes() ([]byte, error) }, want string) {
	t.Helper()
	b, err := v.Bytes()
	if got := hex.EncodeToString(b); err != nil || got != want {
		t.Errorf("%s: %s, %v", name, got, err)
	}
}
