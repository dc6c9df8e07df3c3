package keyrun_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
)

// counted counts what is read.
type counted struct {
	io.ReaderAt
	reads int
}

func (c *counted) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(b, off)
}

// wideEntries is n entries with evenly spread hashes, by ascending hash, at offsets from 0 on.
func wideEntries(r *rand.Rand, n int) (kafkapos.Range, []keyrun.Entry) {
	entries := make([]keyrun.Entry, n)
	for i := range entries {
		entries[i] = keyrun.Entry{Hash: randomHash(r, false), Lowest: kafkapos.Offset(i), Highest: kafkapos.Offset(i)}
	}
	slices.SortFunc(entries, func(a, b keyrun.Entry) int { return a.Hash.Compare(b.Hash) })
	return kafkapos.Range{Start: 0, End: kafkapos.Offset(n)}, entries
}

// probe asks for some of the entries and some hashes that are not there, and answers how often it was read.
func probe(t *testing.T, r *rand.Rand, run *keyrun.Run, src *counted, entries []keyrun.Entry, present, absent int) int {
	t.Helper()
	want := map[keyrun.Hash]kafkapos.Offset{}
	for range present {
		e := entries[r.IntN(len(entries))]
		want[e.Hash] = e.Lowest
	}
	for range absent {
		want[randomHash(r, false)] = keyrun.None
	}
	set, err := keyrun.NewSet(run)
	if err != nil {
		t.Error(err)
	}
	var hashes []keyrun.Hash
	for h := range want {
		hashes = append(hashes, h)
	}
	slices.SortFunc(hashes, keyrun.Hash.Compare)
	dst := make([]kafkapos.Offset, len(hashes))
	before := src.reads
	if err := set.Lowest(hashes, dst); err != nil {
		t.Error(err)
	}
	for i, h := range hashes {
		if dst[i] != want[h] {
			t.Errorf("key %x: %d, want %d", h, dst[i], want[h])
		}
	}
	return src.reads - before
}

// TestFiltersSpareReadsInVain: once a run was read in vain often enough, most of what it does not have is told without
// a read, and it finds the same.
func TestFiltersSpareReadsInVain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rng, entries := wideEntries(r, 200_000)
	b := write(t, rng, entries)
	filters := keyrun.NewFilters(1 << 20)
	src := &counted{ReaderAt: bytes.NewReader(b)}
	run, err := keyrun.Open(src, int64(len(b)), filters)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 50
	for range 10 {
		probe(t, r, run, src, entries, keys, 0)
	}
	if filters.Used() != 0 {
		t.Errorf("%d bytes of filters of a run that was not read in vain", filters.Used())
	}
	if reads := probe(t, r, run, src, entries, keys, keys); reads < keys*3/2 {
		t.Errorf("%d reads for %d keys that are there and as many that are not, without filters", reads, keys)
	}
	for range 2 { // the second one reads the filters
		probe(t, r, run, src, entries, keys, keys)
	}
	if used := filters.Used(); used < int64(len(entries))/2 || used > int64(len(entries)) {
		t.Errorf("%d bytes of filters for %d keys", used, len(entries))
	}
	const rounds = 20
	reads := 0
	for range rounds {
		reads += probe(t, r, run, src, entries, keys, keys)
	}
	if most := rounds * keys * 5 / 4; reads > most {
		t.Errorf("%d reads for %d keys that are there and as many that are not", reads, rounds*keys)
	}
	run.Close()
	if filters.Used() != 0 {
		t.Errorf("%d bytes of filters of a run that was closed", filters.Used())
	}
	for range 5 {
		probe(t, r, run, src, entries, keys, keys)
	}
	if filters.Used() != 0 {
		t.Errorf("%d bytes of filters of a run that was closed and asked again", filters.Used())
	}
}

// TestFiltersStayWithinTheirBound: runs that are asked in turn do not take the memory from each other, however much
// they want; one that nobody asks for any more gives way.
func TestFiltersStayWithinTheirBound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rng, entries := wideEntries(r, 60_000)
	b := write(t, rng, entries)
	const fit, keys, rounds = 3, 20, 20
	with := rounds * keys * 5 / 4 // reads, at most, with filters
	var filters *keyrun.Filters
	var runs []*keyrun.Run
	var srcs []*counted
	open := func(n int, limit int64) {
		runs, srcs, filters = nil, nil, keyrun.NewFilters(limit)
		for range n {
			src := &counted{ReaderAt: bytes.NewReader(b)}
			run, err := keyrun.Open(src, int64(len(b)), filters)
			if err != nil {
				t.Fatal(err)
			}
			runs, srcs = append(runs, run), append(srcs, src)
		}
	}
	ask := func(i int) int { return probe(t, r, runs[i], srcs[i], entries, keys, keys) }
	open(1, 1<<20)
	for range 5 {
		ask(0)
	}
	limit := fit * filters.Used()
	if limit == 0 {
		t.Fatal("no filters")
	}
	open(fit+2, limit)
	reads := make([]int, len(runs))
	for round := range 5 + rounds {
		for i := range runs {
			n := ask(i)
			if filters.Used() > limit {
				t.Fatalf("%d bytes of filters, the bound is %d", filters.Used(), limit)
			}
			if round >= 5 {
				reads[i] += n
			}
		}
	}
	for i, n := range reads {
		if had := i < fit; had != (n <= with) {
			t.Errorf("%d reads of run %d; it had filters: %v", n, i, had)
		}
	}
	for range 5 {
		ask(fit + 1)
	}
	alone := 0
	for range rounds {
		alone += ask(fit + 1)
	}
	if alone > with || filters.Used() != limit {
		t.Errorf("%d reads of the only run that is asked for, %d bytes of filters", alone, filters.Used())
	}
}

// TestDamagedFiltersAreCorrupt: they say of no key that it is not there.
func TestDamagedFiltersAreCorrupt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rng, entries := wideEntries(r, 20_000)
	b := write(t, rng, entries)
	clear(b[64<<10 : 68<<10]) // of the first 64 blocks, which are before them
	run, err := keyrun.Open(bytes.NewReader(b), int64(len(b)), keyrun.NewFilters(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyrun.NewSet(run)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		dst := []kafkapos.Offset{0, 0, 0}
		err = set.Highest([]keyrun.Hash{entries[7].Hash, {0x20}, {0x80}}, dst)
		if err != nil {
			break
		}
		if dst[0] != entries[7].Highest {
			t.Fatalf("a key that is there: %d", dst[0])
		}
	}
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("filters of zeros: %v", err)
	}
}

// TestManyAskAtOnce: readers of runs whose filters come and go find the same.
func TestManyAskAtOnce(t *testing.T) {
	rng, entries := wideEntries(rand.New(rand.NewPCG(1, 1)), 20_000)
	b := write(t, rng, entries)
	filters := keyrun.NewFilters(20_000)
	runs := make([]*keyrun.Run, 3)
	for i := range runs {
		run, err := keyrun.Open(bytes.NewReader(b), int64(len(b)), filters)
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = run
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for n := range 60 {
				probe(t, r, runs[n/20], &counted{}, entries, 20, 20)
			}
			runs[0].Close()
		})
	}
	all.Wait()
}

// TestABlockOfAnotherPlaceIsCorrupt: one that a disk wrote or reads elsewhere verifies only where it belongs.
func TestABlockOfAnotherPlaceIsCorrupt(t *testing.T) {
	rng, entries := wideEntries(rand.New(rand.NewPCG(1, 1)), 1000)
	b := write(t, rng, entries)
	copy(b[1<<10:2<<10], b[:1<<10])
	run, err := keyrun.FromBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(run); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a block in the place of another: %v", err)
	}
	rng.End++
	other := write(t, rng, entries)
	copy(other[:1<<10], b[:1<<10])
	if run, err = keyrun.FromBytes(other); err != nil {
		t.Fatal(err)
	}
	if _, err := all(run); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a block of a run over another range: %v", err)
	}
}

// rotting is a file whose bits can flip.
type rotting struct{ b []byte }

func (f *rotting) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(b, off)
}

// TestABitThatFlipsUnderAnOpenRunIsNotServed: whatever was read of it before.
func TestABitThatFlipsUnderAnOpenRunIsNotServed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rng, entries := wideEntries(r, 10_000)
	good := write(t, rng, entries)
	hashes, dst := make([]keyrun.Hash, len(entries)), make([]kafkapos.Offset, len(entries))
	for i, e := range entries {
		hashes[i] = e.Hash
	}
	corrupt := 0
	for range 300 {
		f := &rotting{bytes.Clone(good)}
		run, err := keyrun.Open(f, int64(len(good)), keyrun.NewFilters(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		set, err := keyrun.NewSet(run)
		if err != nil {
			t.Fatal(err)
		}
		sparse := func() error { // by the filters, if they are read
			var some []keyrun.Hash
			for range 25 {
				some = append(some, hashes[r.IntN(len(hashes))], randomHash(r, false))
			}
			slices.SortFunc(some, keyrun.Hash.Compare)
			found := make([]kafkapos.Offset, len(some))
			if err := set.Highest(some, found); err != nil {
				return err
			}
			for i, h := range some {
				at, ok := slices.BinarySearchFunc(entries, h, func(e keyrun.Entry, h keyrun.Hash) int { return e.Hash.Compare(h) })
				if ok != (found[i] != keyrun.None) || ok && found[i] != entries[at].Highest {
					t.Fatalf("key %x: %d", h, found[i])
				}
			}
			return nil
		}
		if err := errors.Join(set.Lowest(hashes, dst), sparse()); err != nil {
			t.Fatal(err)
		}
		at := r.IntN(len(good))
		f.b[at] ^= 1 << r.IntN(8)
		for range 5 {
			if err := sparse(); err != nil && !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
		}
		switch err := set.Lowest(hashes, dst); {
		case errors.Is(err, fault.ErrCorrupt):
			corrupt++
		case err != nil:
			t.Fatal(err)
		default: // in the filters, the index or the foot
			for i, e := range entries {
				if dst[i] != e.Lowest {
					t.Fatalf("byte %d of %d flipped: key %x: %d, want %d", at, len(good), e.Hash, dst[i], e.Lowest)
				}
			}
		}
	}
	if corrupt < 200 {
		t.Errorf("%d of 300 flips were seen by a lookup of all keys", corrupt)
	}
}
