package virtualfile_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/parquetio/parquetiotest"
	"github.com/frazil-io/frazil/libs/virtualfile"
)

// parts is a file's row groups and tail, and what was asked for.
type parts struct {
	groups []parquetio.RowGroup
	tail   []byte
	asked  map[int]int // row group -> times; -1 = the tail
	err    error
}

func (p *parts) Pages(i int) (io.ReaderAt, error) {
	p.asked[i]++
	return bytes.NewReader(p.groups[i].Pages), p.err
}

func (p *parts) Tail() ([]byte, error) {
	p.asked[-1]++
	return p.tail, p.err
}

// sample is a file of n row groups, its parts, and all of its bytes made the plain way.
func sample(t *testing.T, r *rand.Rand, n int, hole int64) (*virtualfile.File, *parts, []byte) {
	t.Helper()
	s := parquetiotest.Schema()
	e, err := parquetio.NewEncoder(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &parts{asked: map[int]int{}}
	whole := []byte(parquetio.Magic)
	declared := e.FileBase() + hole
	var placed []parquetio.Placed
	var sizes []virtualfile.RowGroup
	for range n {
		rg, err := e.Encode(parquetiotest.Batch(r, s, 1+r.IntN(40)))
		if err != nil {
			t.Fatal(err)
		}
		placed = append(placed, parquetio.Placed{Meta: rg.Meta, Offset: int64(len(whole))})
		whole = append(whole, rg.Pages...)
		declared += rg.SizeBytes + rg.TailBytes
		sizes = append(sizes, virtualfile.RowGroup{SizeBytes: rg.SizeBytes, TailBytes: rg.TailBytes})
		p.groups = append(p.groups, rg)
	}
	if p.tail, err = e.Tail(placed, declared); err != nil {
		t.Fatal(err)
	}
	whole = append(append(whole, make([]byte, hole)...), p.tail...)
	f, err := virtualfile.New(declared, e.FileBase(), sizes)
	if err != nil {
		t.Fatal(err)
	}
	return f, p, whole
}

func TestEveryRangeIsTheWholeFilesSlice(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		hole := int64(0)
		if seed%2 == 1 {
			hole = int64(r.IntN(100_000))
		}
		f, p, whole := sample(t, r, 1+r.IntN(5), hole)
		if f.Size() != int64(len(whole)) {
			t.Fatalf("seed %d: size %d, want %d", seed, f.Size(), len(whole))
		}
		for range 300 {
			off := r.Int64N(f.Size() + 1)
			n := r.Int64N(f.Size() - off + 1)
			if r.IntN(3) == 0 {
				n = min(n, int64(r.IntN(50)))
			}
			clear(p.asked)
			var out bytes.Buffer
			if err := virtualfile.NewReader(f, p).WriteRange(&out, off, n, make([]byte, 1+r.IntN(5000))); err != nil {
				t.Fatalf("seed %d [%d,+%d): %v", seed, off, n, err)
			}
			if !bytes.Equal(out.Bytes(), whole[off:off+n]) {
				t.Fatalf("seed %d [%d,+%d): other bytes", seed, off, n)
			}
			first, last, tail := f.Touched(off, n)
			for i := range f.RowGroups() {
				want := 0
				if i >= first && i < last {
					want = 1
				}
				if p.asked[i] != want {
					t.Fatalf("seed %d [%d,+%d): row group %d was asked for %d times, touched [%d,%d)", seed, off, n, i, p.asked[i], first, last)
				}
			}
			if (p.asked[-1] == 1) != tail || p.asked[-1] > 1 {
				t.Fatalf("seed %d [%d,+%d): the tail was asked for %d times, touched %t", seed, off, n, p.asked[-1], tail)
			}
		}
	}
}

func TestAFileWithAHoleIsParquet(t *testing.T) {
	f, p, _ := sample(t, rand.New(rand.NewPCG(1, 2)), 3, 1<<20)
	pf, err := parquet.OpenFile(virtualfile.NewReader(f, p), f.Size())
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for i, g := range p.groups {
		want += g.Rows
		if at := pf.Metadata().RowGroups[i].FileOffset; at != f.Start(i) {
			t.Errorf("row group %d at %d, want %d", i, at, f.Start(i))
		}
	}
	if pf.NumRows() != want {
		t.Errorf("%d rows, want %d", pf.NumRows(), want)
	}
}

func TestAnExactSizeHasNoHole(t *testing.T) {
	f, _, _ := sample(t, rand.New(rand.NewPCG(1, 2)), 3, 0)
	if f.FrontEnd() != f.TailStart() {
		t.Errorf("hole [%d,%d)", f.FrontEnd(), f.TailStart())
	}
}

func TestAFileThatOutgrowsItsNameIsRetired(t *testing.T) {
	groups := []virtualfile.RowGroup{{SizeBytes: 1000, TailBytes: 100}}
	if _, err := virtualfile.New(1300, 200, groups); err != nil {
		t.Errorf("exact: %v", err)
	}
	if _, err := virtualfile.New(1299, 200, groups); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("one byte short: %v", err)
	}
	if _, err := virtualfile.New(1<<30, 200, []virtualfile.RowGroup{{}}); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("row group without bytes: %v", err)
	}
}

func TestClip(t *testing.T) {
	f, err := virtualfile.New(1300, 200, []virtualfile.RowGroup{{SizeBytes: 1000, TailBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ off, length, from, n int64 }{
		{0, 10, 0, 10}, {0, -1, 0, 1300}, {1299, 5, 1299, 1}, {1300, 5, 1300, 0}, {5000, -1, 1300, 0}, {-1, 5, 0, 0},
		{1, 1<<63 - 1, 1, 1299},
	} {
		if from, n := f.Clip(c.off, c.length); from != c.from || n != c.n {
			t.Errorf("Clip(%d, %d) = %d, %d, want %d, %d", c.off, c.length, from, n, c.from, c.n)
		}
	}
}

func TestPartsOfAnotherLengthAreCorrupt(t *testing.T) {
	f, p, _ := sample(t, rand.New(rand.NewPCG(4, 2)), 2, 10)
	p.groups[1].Pages = p.groups[1].Pages[:len(p.groups[1].Pages)-1]
	read := func(off, n int64) error {
		_, err := virtualfile.NewReader(f, p).ReadAt(make([]byte, n), off)
		return err
	}
	if err := read(f.Start(1), f.Start(2)-f.Start(1)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("short pages: %v", err)
	}
	p.tail = p.tail[1:]
	if err := read(f.TailStart(), 8); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("short tail: %v", err)
	}
	if err := read(f.Size()-4, 5); errors.Is(err, io.EOF) || err == nil {
		t.Errorf("corrupt tail behind the end: %v", err)
	}
	p.err = fault.ErrUnavailable
	if err := read(f.Start(0), 1); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("source's error: %v", err)
	}
}
