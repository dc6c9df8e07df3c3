package keyrun_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
)

// randomHash is uniform, or from a corner: keys that share all but a few bits must work too.
func randomHash(r *rand.Rand, skewed bool) (h keyrun.Hash) {
	for i := range h {
		if !skewed || i > 8 || i == 0 && r.IntN(50) == 0 {
			h[i] = byte(r.UintN(256))
		}
	}
	return h
}

// randomEntries is a run's content by ascending hash.
func randomEntries(r *rand.Rand, rng kafkapos.Range, n int) []keyrun.Entry {
	skewed := r.IntN(4) == 0
	byHash := map[keyrun.Hash]keyrun.Entry{}
	for range n {
		e := keyrun.Entry{Hash: randomHash(r, skewed)}
		e.Lowest = rng.Start + kafkapos.Offset(r.Int64N(rng.Len()))
		e.Highest = e.Lowest
		if r.IntN(3) == 0 {
			e.Highest += kafkapos.Offset(r.Int64N(int64(rng.End - e.Lowest)))
		}
		byHash[e.Hash] = e
	}
	out := make([]keyrun.Entry, 0, len(byHash))
	for _, e := range byHash {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b keyrun.Entry) int { return a.Hash.Compare(b.Hash) })
	return out
}

func randomRange(r *rand.Rand, from kafkapos.Offset) kafkapos.Range {
	return kafkapos.Range{Start: from, End: from + 1 + kafkapos.Offset(r.Int64N(1<<r.IntN(40)))}
}

func write(t testing.TB, rng kafkapos.Range, entries []keyrun.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	info, err := keyrun.Write(&b, rng, entries)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != int64(b.Len()) || info.Entries != int64(len(entries)) || info.Range != rng {
		t.Fatalf("info %+v of %d bytes", info, b.Len())
	}
	return b.Bytes()
}

// open opens a run in one of the ways.
func open(t testing.TB, r *rand.Rand, b []byte) *keyrun.Run {
	t.Helper()
	run, err := keyrun.FromBytes(b)
	switch r.IntN(3) {
	case 0:
		run, err = keyrun.Open(bytes.NewReader(b), int64(len(b)), nil)
	case 1:
		run, err = keyrun.Open(bytes.NewReader(b), int64(len(b)), keyrun.NewFilters(1<<20))
	}
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func all(run *keyrun.Run) ([]keyrun.Entry, error) {
	var out []keyrun.Entry
	for e, err := range run.All() {
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// TestSetFindsWhatAMapFinds: runs of every size over disjoint ranges, merged at random, asked for present and
// absent keys, against a map.
func TestSetFindsWhatAMapFinds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		want := map[keyrun.Hash]keyrun.Entry{}
		var runs []*keyrun.Run
		var known []keyrun.Hash
		at := kafkapos.Offset(r.Int64N(1 << 40))
		for range 1 + r.IntN(4) {
			rng := randomRange(r, at)
			at = rng.End
			entries := randomEntries(r, rng, r.IntN(1<<r.IntN(13)))
			for i := range entries {
				if len(known) > 0 && r.IntN(3) == 0 {
					entries[i].Hash = known[r.IntN(len(known))]
				}
			}
			slices.SortFunc(entries, func(a, b keyrun.Entry) int { return a.Hash.Compare(b.Hash) })
			entries = slices.CompactFunc(entries, func(a, b keyrun.Entry) bool { return a.Hash == b.Hash })
			for _, e := range entries {
				known = append(known, e.Hash)
				if old, ok := want[e.Hash]; ok {
					e.Lowest = old.Lowest
				}
				want[e.Hash] = e
			}
			runs = append(runs, open(t, r, write(t, rng, entries)))
		}
		if len(runs) > 1 && r.IntN(2) == 0 {
			var b bytes.Buffer
			if _, err := keyrun.Merge(&b, runs[:2]...); err != nil {
				t.Fatal(err)
			}
			runs = append([]*keyrun.Run{open(t, r, b.Bytes())}, runs[2:]...)
		}
		checkSet(t, r, runs, known, want)
	}
}

func checkSet(t *testing.T, r *rand.Rand, runs []*keyrun.Run, known []keyrun.Hash, want map[keyrun.Hash]keyrun.Entry) {
	t.Helper()
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	set, err := keyrun.NewSet(runs...)
	if err != nil {
		t.Fatal(err)
	}
	ask := slices.Clone(known)
	for range 200 {
		h := randomHash(r, r.IntN(2) == 0)
		ask = append(ask, h)
		if len(known) > 0 { // a neighbour of a key that is there
			h = known[r.IntN(len(known))]
			h[9]++
			ask = append(ask, h)
		}
	}
	slices.SortFunc(ask, keyrun.Hash.Compare)
	ask = slices.Compact(ask)
	lowest, highest := make([]kafkapos.Offset, len(ask)), make([]kafkapos.Offset, len(ask))
	if err := set.Lowest(ask, lowest); err != nil {
		t.Fatal(err)
	}
	if err := set.Highest(ask, highest); err != nil {
		t.Fatal(err)
	}
	for i, h := range ask {
		e, ok := want[h]
		if !ok {
			e = keyrun.Entry{Lowest: keyrun.None, Highest: keyrun.None}
		}
		if lowest[i] != e.Lowest || highest[i] != e.Highest {
			t.Fatalf("key %x: %d to %d, want %d to %d", h, lowest[i], highest[i], e.Lowest, e.Highest)
		}
	}
}

// TestAllAnswersWhatWasWritten: for runs of several groups of blocks, of parts of one, and of nothing.
func TestAllAnswersWhatWasWritten(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{0, 1, 100, 5000, 30_000} {
		rng := randomRange(r, 12345)
		entries := randomEntries(r, rng, n)
		var b bytes.Buffer
		w, err := keyrun.NewWriter(&b, rng)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := w.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := all(open(t, r, b.Bytes()))
		if err != nil || !slices.Equal(got, entries) {
			t.Fatalf("%d entries: %d, want %d, %v", n, len(got), len(entries), err)
		}
	}
}

// TestOneMillionKeysAreSmall: the index of a chunk costs at most 14 bytes per key.
func TestOneMillionKeysAreSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rng := kafkapos.Range{Start: 1 << 40, End: 1<<40 + 1<<20}
	entries := make([]keyrun.Entry, 1<<20)
	for i := range entries {
		off := rng.Start + kafkapos.Offset(i)
		entries[i] = keyrun.Entry{Hash: randomHash(r, false), Lowest: off, Highest: off}
		if r.IntN(2) == 0 {
			entries[i].Highest = off + kafkapos.Offset(r.Int64N(int64(rng.End-off)))
		}
	}
	slices.SortFunc(entries, func(a, b keyrun.Entry) int { return a.Hash.Compare(b.Hash) })
	if perKey := float64(len(write(t, rng, entries))) / float64(len(entries)); perKey > 14 {
		t.Errorf("%.2f bytes per key", perKey)
	}
}

// TestAFlippedBitIsCorrupt: wherever it is; it is never another answer.
func TestAFlippedBitIsCorrupt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rng := kafkapos.Range{Start: 1000, End: 900_000}
	b := write(t, rng, randomEntries(r, rng, 5000))
	for range 400 {
		flipped := bytes.Clone(b)
		flipped[r.IntN(len(b))] ^= 1 << r.IntN(8)
		run, err := keyrun.FromBytes(flipped)
		if err == nil {
			_, err = all(run)
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("a flipped bit: %v", err)
		}
	}
	for _, n := range []int{0, 10, 60, len(b) / 2, len(b) - 1} {
		if _, err := keyrun.FromBytes(b[:n]); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

// TestWriterRefusesWhatLookupsCouldNotFind names each misuse.
func TestWriterRefusesWhatLookupsCouldNotFind(t *testing.T) {
	rng := kafkapos.Range{Start: 10, End: 20}
	for name, entries := range map[string][]keyrun.Entry{
		"twice":         {{Hash: keyrun.Hash{1}, Lowest: 10, Highest: 10}, {Hash: keyrun.Hash{1}, Lowest: 11, Highest: 11}},
		"descending":    {{Hash: keyrun.Hash{2}, Lowest: 10, Highest: 10}, {Hash: keyrun.Hash{1}, Lowest: 11, Highest: 11}},
		"below":         {{Hash: keyrun.Hash{1}, Lowest: 9, Highest: 10}},
		"above":         {{Hash: keyrun.Hash{1}, Lowest: 10, Highest: 20}},
		"inverted pair": {{Hash: keyrun.Hash{1}, Lowest: 12, Highest: 11}},
	} {
		if _, err := keyrun.Write(&bytes.Buffer{}, rng, entries); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetsOfRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	run := func(from, to kafkapos.Offset) *keyrun.Run {
		return open(t, r, write(t, kafkapos.Range{Start: from, End: to}, nil))
	}
	a, b, c := run(0, 10), run(10, 30), run(40, 50)
	if _, err := keyrun.NewSet(a, run(9, 12)); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("overlap: %v", err)
	}
	set, err := keyrun.NewSet(c, b, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		rng  kafkapos.Range
		want int // -1: invalid
	}{
		{kafkapos.Range{Start: 0, End: 30}, 2},
		{kafkapos.Range{Start: 10, End: 30}, 1},
		{kafkapos.Range{Start: 10, End: 10}, 0},
		{kafkapos.Range{Start: 10, End: 20}, -1},
		{kafkapos.Range{Start: 5, End: 30}, -1},
		{kafkapos.Range{Start: 10, End: 50}, -1},
		{kafkapos.Range{Start: 60, End: 70}, -1},
	} {
		got, err := set.Within(tc.rng)
		if tc.want < 0 && !errors.Is(err, fault.ErrInvalid) || tc.want >= 0 && (err != nil || len(got.Runs()) != tc.want) {
			t.Errorf("within %s: %d runs, %v; want %d", tc.rng, len(got.Runs()), err, tc.want)
		}
	}
	if got := set.Meeting(kafkapos.Range{Start: 29, End: 41}).Runs(); len(got) != 2 {
		t.Errorf("meeting: %d runs", len(got))
	}
}

// FuzzOpen: no bytes may do more than fail.
func FuzzOpen(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	rng := kafkapos.Range{Start: 5, End: 5000}
	for _, n := range []int{0, 1, 40, 3000} {
		f.Add(write(f, rng, randomEntries(r, rng, n)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		run, err := keyrun.FromBytes(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		entries, err := all(run)
		if err != nil {
			return
		}
		set, err := keyrun.NewSet(run)
		if err != nil {
			t.Fatal(err)
		}
		hashes := []keyrun.Hash{{}, {0x7f}, {0xff, 0xff}}
		if err := set.Lowest(hashes, make([]kafkapos.Offset, 3)); err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("%d entries: %v", len(entries), err)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	rng := kafkapos.Range{Start: 0, End: 1 << 20}
	entries := make([]keyrun.Entry, 1<<20)
	for i := range entries {
		entries[i] = keyrun.Entry{Hash: randomHash(r, false), Lowest: kafkapos.Offset(i), Highest: kafkapos.Offset(i)}
	}
	slices.SortFunc(entries, func(a, b keyrun.Entry) int { return a.Hash.Compare(b.Hash) })
	file := write(b, rng, entries)
	run, err := keyrun.FromBytes(file)
	if err != nil {
		b.Fatal(err)
	}
	set, err := keyrun.NewSet(run)
	if err != nil {
		b.Fatal(err)
	}
	for _, batch := range []int{1000, 100_000, 1 << 20} {
		hashes := make([]keyrun.Hash, batch)
		for i := range hashes {
			hashes[i] = entries[i*(len(entries)/batch)].Hash
		}
		dst := make([]kafkapos.Offset, batch)
		b.Run("keys", func(b *testing.B) {
			for range b.N {
				if err := set.Lowest(hashes, dst); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/key")
		})
	}
}

// TestTheFormatIsFrozen: bytes of version 2 that are out there stay readable, and are written the same.
func TestTheFormatIsFrozen(t *testing.T) {
	b := write(t, kafkapos.Range{Start: 1000, End: 2000}, []keyrun.Entry{
		{Hash: keyrun.Hash{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Lowest: 1001, Highest: 1001},
		{Hash: keyrun.Hash{0xff, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Lowest: 1002, Highest: 1999},
	})
	const want = "7d6254670200500a0102030405060708090a00000000000000000000fe000000000000000000004027e51000000000000000000000000000000000" +
		"0000000000000001000000000000000004000000000000000000000000000000000000000000000400000000000000040302013997390d465a4b52" +
		"02000000e803000000000000d0070000000000000200000000000000010000002a000000078d481d37ff5c5c"
	if got := hex.EncodeToString(b); got != want {
		t.Error(got)
	}
	big := sha256.New()
	entries := make([]keyrun.Entry, 50_000)
	for i := range entries {
		binary.BigEndian.PutUint32(entries[i].Hash[:], uint32(i)*85_000)
		entries[i].Lowest = kafkapos.Offset(i)
		entries[i].Highest = entries[i].Lowest + kafkapos.Offset(i%3)
	}
	if _, err := keyrun.Write(big, kafkapos.Range{Start: 0, End: 60_000}, entries); err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(big.Sum(nil)); got != "802cd76a78f5742273682767fa97f20fac1796bbf204ee832467d3876c30b842" {
		t.Error(got)
	}
}

// TestOtherVersionsAreMadeAgain: to whoever opens it, a file of another version is a damaged one.
func TestOtherVersionsAreMadeAgain(t *testing.T) {
	first, err := hex.DecodeString("465a4b5201000002e803000000000000d007000000000000000000005cbe1e590200000002020000000102030405060708090aff0203040506070809" +
		"0a010002000200000000000000e5035fdcf85020000000000000004f0000000000000002000000000000004f00000000000000465a4b72d03cb091")
	if err != nil {
		t.Fatal(err)
	}
	next := write(t, kafkapos.Range{Start: 1000, End: 2000}, nil)
	foot := next[len(next)-48:]
	foot[4]++
	binary.LittleEndian.PutUint32(foot[44:], crc32.Checksum(foot[:44], crc32.MakeTable(crc32.Castagnoli)))
	for name, b := range map[string][]byte{"1": first, "next": next} {
		if _, err := keyrun.FromBytes(b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("version %s: %v", name, err)
		}
	}
}
