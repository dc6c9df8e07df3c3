package posdelete_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/posdelete"
)

const path = "s3://frazil/orders-abcdefghijklmnop/current/data/0/0-1048576-v0-b16-saaaaaaaaaa-ebbbbbbbbbb-z12345-cccccccccc.parquet"

func randomPositions(r *rand.Rand, n int) *roaring.Bitmap {
	set := roaring.New()
	for set.GetCardinality() < uint64(n) {
		if r.IntN(20) == 0 {
			from := uint64(r.IntN(1 << 22))
			set.AddRange(from, from+uint64(min(r.IntN(5000), n-int(set.GetCardinality()))))
		} else {
			set.Add(r.Uint32N(1 << 22))
		}
	}
	return set
}

func write(t *testing.T, f *posdelete.File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteRange(&b, 0, f.Size()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLengthIsAFormula: it depends on the number of positions and the length of the path, on nothing else.
func TestLengthIsAFormula(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 63, 64, 127, 128, 8191, 8192, 65535, 65536, 65537, 131072, 131073, 1 + r.IntN(300_000)} {
		name := path[:1+r.IntN(len(path)-1)]
		want, err := posdelete.Length(int64(n), len(name))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			f, err := posdelete.New(name, randomPositions(r, n))
			if err != nil {
				t.Fatal(err)
			}
			if b := write(t, f); int64(len(b)) != want || f.Size() != want {
				t.Fatalf("%d positions: %d bytes, size %d, formula %d", n, len(b), f.Size(), want)
			}
		}
	}
}

// TestOthersReadBack: arrow-go and parquet-go find the same rows, ids and statistics.
func TestOthersReadBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 1000, 65536, 65537, 200_000} {
		set := randomPositions(r, n)
		f, err := posdelete.New(path, set)
		if err != nil {
			t.Fatal(err)
		}
		b := write(t, f)
		checkArrow(t, b, set)
		checkParquetGo(t, b, set)
	}
}

func checkArrow(t *testing.T, b []byte, set *roaring.Bitmap) {
	t.Helper()
	rd, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	schema := rd.MetaData().Schema
	for i, want := range []struct {
		name string
		id   int32
	}{{"file_path", 2147483546}, {"pos", 2147483545}} {
		node := schema.Column(i).SchemaNode()
		if node.Name() != want.name || node.FieldID() != want.id || node.RepetitionType() != parquet.Repetitions.Required {
			t.Fatalf("column %d: %s id %d %s", i, node.Name(), node.FieldID(), node.RepetitionType())
		}
	}
	if rd.NumRowGroups() != 1 || rd.NumRows() != int64(set.GetCardinality()) {
		t.Fatalf("%d row groups, %d rows, want %d", rd.NumRowGroups(), rd.NumRows(), set.GetCardinality())
	}
	paths := readArrow[parquet.ByteArray](t, rd, 0)
	positions := readArrow[int64](t, rd, 1)
	it := set.Iterator()
	for i := range positions {
		if want := int64(it.Next()); positions[i] != want || string(paths[i]) != path {
			t.Fatalf("row %d: %s %d, want %d", i, paths[i], positions[i], want)
		}
	}
}

func readArrow[T parquet.ByteArray | int64](t *testing.T, rd *file.Reader, column int) []T {
	t.Helper()
	col, err := rd.RowGroup(0).Column(column)
	if err != nil {
		t.Fatal(err)
	}
	batch, ok := col.(interface {
		ReadBatch(int64, []T, []int16, []int16) (int64, int, error)
	})
	if !ok {
		t.Fatalf("column %d is a %T", column, col)
	}
	out := make([]T, rd.NumRows())
	for n := 0; n < len(out); {
		_, k, err := batch.ReadBatch(int64(len(out)-n), out[n:], nil, nil)
		if err != nil || k == 0 {
			t.Fatalf("column %d: %d of %d: %v", column, n, len(out), err)
		}
		n += k
	}
	return out
}

func checkParquetGo(t *testing.T, b []byte, set *roaring.Bitmap) {
	t.Helper()
	f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	stats := f.Metadata().RowGroups[0].Columns
	if string(stats[0].MetaData.Statistics.MinValue) != path || string(stats[0].MetaData.Statistics.MaxValue) != path {
		t.Fatalf("bounds of the path: %q %q", stats[0].MetaData.Statistics.MinValue, stats[0].MetaData.Statistics.MaxValue)
	}
	if lo, hi := stats[1].MetaData.Statistics.MinValue, stats[1].MetaData.Statistics.MaxValue; binary.LittleEndian.Uint64(lo) != uint64(set.Minimum()) ||
		binary.LittleEndian.Uint64(hi) != uint64(set.Maximum()) {
		t.Fatalf("bounds of pos: %x %x", lo, hi)
	}
	rows := parquetgo.NewGenericReader[struct {
		Path string `parquet:"file_path"`
		Pos  int64  `parquet:"pos"`
	}](f)
	defer func() { _ = rows.Close() }()
	buf := make([]struct {
		Path string `parquet:"file_path"`
		Pos  int64  `parquet:"pos"`
	}, 1000)
	it := set.Iterator()
	for {
		n, err := rows.Read(buf)
		for _, row := range buf[:n] {
			if row.Path != path || row.Pos != int64(it.Next()) {
				t.Fatalf("row %+v", row)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if it.HasNext() {
		t.Fatalf("rows end before %d", it.PeekNext())
	}
}

func TestAnyRangeOfTheFile(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f, err := posdelete.New(path, randomPositions(r, 140_000))
	if err != nil {
		t.Fatal(err)
	}
	whole := write(t, f)
	for range 300 {
		off := r.Int64N(f.Size() + 1)
		n := r.Int64N(f.Size() - off + 1)
		if r.IntN(2) == 0 {
			n = min(n, 100)
		}
		var b bytes.Buffer
		if err := f.WriteRange(&b, off, n); err != nil || !bytes.Equal(b.Bytes(), whole[off:off+n]) {
			t.Fatalf("range [%d,%d): %d bytes, %v", off, off+n, b.Len(), err)
		}
	}
	if err := f.WriteRange(&bytes.Buffer{}, 1, f.Size()); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("beyond the end: %v", err)
	}
}

// TestNoEmptyFile: Velox skips a delete file of no rows; a file without marks has none.
func TestNoEmptyFile(t *testing.T) {
	if _, err := posdelete.New(path, roaring.New()); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("no positions: %v", err)
	}
	if _, err := posdelete.Length(0, len(path)); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("length of none: %v", err)
	}
	if _, err := posdelete.New("", roaring.BitmapOf(1)); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("no path: %v", err)
	}
}
