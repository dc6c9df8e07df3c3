package parquetio_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/parquetio/parquetiotest"
	"github.com/frazil-io/frazil/libs/schema"
)

var rewrite = flag.Bool("rewrite", false, "rewrite golden files")

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

func encoder(t testing.TB, s *schema.Schema) *parquetio.Encoder {
	t.Helper()
	e, err := parquetio.NewEncoder(s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func encode(t testing.TB, e *parquetio.Encoder, b *column.Batch) parquetio.RowGroup {
	t.Helper()
	rg, err := e.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return rg
}

// file puts row groups into one file with a hole before its tail.
func file(t testing.TB, e *parquetio.Encoder, hole int64, groups ...parquetio.RowGroup) []byte {
	t.Helper()
	out := []byte(parquetio.Magic)
	declared := e.FileBase() + hole
	var placed []parquetio.Placed
	for _, g := range groups {
		placed = append(placed, parquetio.Placed{Meta: g.Meta, Offset: int64(len(out))})
		out = append(out, g.Pages...)
		declared += g.SizeBytes + g.TailBytes
	}
	tail, err := e.Tail(placed, declared)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, make([]byte, hole)...)
	return append(out, tail...)
}

func TestFilesReadBackWithEveryValueAndLevel(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	for seed := range uint64(6) {
		r := newRand(seed)
		var batches []*column.Batch
		var groups []parquetio.RowGroup
		for _, rows := range []int{1, 3000 + r.IntN(3000), 1 + r.IntN(100)} {
			b := parquetiotest.Batch(r, s, rows)
			batches = append(batches, b)
			groups = append(groups, encode(t, e, b))
		}
		data := file(t, e, int64(r.IntN(2))*5000, groups...)
		f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(f.RowGroups()) != len(batches) {
			t.Fatalf("seed %d: %d row groups", seed, len(f.RowGroups()))
		}
		for i, rg := range f.RowGroups() {
			if rg.NumRows() != int64(batches[i].Rows) {
				t.Fatalf("seed %d: row group %d has %d rows, want %d", seed, i, rg.NumRows(), batches[i].Rows)
			}
			for k, cc := range rg.ColumnChunks() {
				compareColumn(t, fmt.Sprintf("seed %d group %d leaf %d", seed, i, k), batches[i].Leaves[k], cc)
			}
		}
	}
}

func compareColumn(t *testing.T, name string, l *column.Leaf, cc parquet.ColumnChunk) {
	t.Helper()
	pages := cc.Pages()
	defer pages.Close()
	slot, at := 0, 0
	buf := make([]parquet.Value, 100)
	for {
		p, err := pages.ReadPage()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		values := p.Values()
		for {
			n, err := values.ReadValues(buf)
			for _, v := range buf[:n] {
				if l.MaxDef > 0 && int(l.Def[slot]) != v.DefinitionLevel() || l.MaxRep > 0 && int(l.Rep[slot]) != v.RepetitionLevel() {
					t.Fatalf("%s: levels of slot %d are %d, %d", name, slot, v.DefinitionLevel(), v.RepetitionLevel())
				}
				if !v.IsNull() {
					if got, want := show(v), stored(l, at); got != want {
						t.Fatalf("%s: value %d is %s, want %s", name, at, got, want)
					}
					at++
				}
				slot++
			}
			if err != nil {
				break
			}
		}
	}
	if at != l.Len() || l.MaxDef > 0 && slot != len(l.Def) {
		t.Fatalf("%s: %d slots and %d of %d values", name, slot, at, l.Len())
	}
}

func show(v parquet.Value) string {
	switch v.Kind() {
	case parquet.Boolean:
		return fmt.Sprint(v.Boolean())
	case parquet.Int32:
		return fmt.Sprint(v.Int32())
	case parquet.Int64:
		return fmt.Sprint(v.Int64())
	case parquet.Float:
		return fmt.Sprint(v.Float())
	case parquet.Double:
		return fmt.Sprint(v.Double())
	default:
		return hex.EncodeToString(v.ByteArray())
	}
}

func stored(l *column.Leaf, i int) string {
	switch l.Kind {
	case column.Bool:
		return fmt.Sprint(l.Bools[i])
	case column.Int32:
		return fmt.Sprint(l.Int32s[i])
	case column.Int64:
		return fmt.Sprint(l.Int64s[i])
	case column.Float32:
		return fmt.Sprint(l.Float32s[i])
	case column.Float64:
		return fmt.Sprint(l.Float64s[i])
	default:
		return hex.EncodeToString(l.Value(i))
	}
}

// Readers that skip pages go by the offset index: a row found through it is the row.
func TestTheOffsetIndexLeadsToTheRow(t *testing.T) {
	s := &schema.Schema{Fields: []schema.Field{
		{ID: 1, Name: "n", Type: schema.Type{Kind: schema.Long}, Required: true},
		{ID: 2, Name: "text", Type: schema.Type{Kind: schema.String}},
	}}
	e := encoder(t, s)
	b := column.NewBatch(s)
	const rows = 9000
	for i := range rows {
		b.Leaves[0].Int64s = append(b.Leaves[0].Int64s, int64(i))
		if i%3 == 0 {
			b.Leaves[1].Null(0, 0)
		} else {
			b.Leaves[1].Present(0)
			b.Leaves[1].AppendBytes(fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 600)))
		}
		b.EndRow()
	}
	rg := encode(t, e, b)
	if n := len(rg.Meta.OffsetIndexes[1].PageLocations); n < 3 {
		t.Fatalf("%d pages", n)
	}
	data := file(t, e, 999, encode(t, e, parquetBatchOf(s)), rg)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 1, 2999, 3000, 5000, 8999} {
		r := f.RowGroups()[1].Rows()
		if err := r.SeekToRow(at); err != nil {
			t.Fatal(err)
		}
		row := make([]parquet.Row, 1)
		if n, err := r.ReadRows(row); n != 1 {
			t.Fatalf("row %d: %v", at, err)
		}
		text := row[0][1].String()
		if row[0][0].Int64() != at || at%3 != 0 && !strings.HasPrefix(text, fmt.Sprintf("%d ", at)) {
			t.Errorf("row %d is %d, %.10s", at, row[0][0].Int64(), text)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// parquetBatchOf is one row of nulls and zeros.
func parquetBatchOf(s *schema.Schema) *column.Batch {
	b := column.NewBatch(s)
	b.Leaves[0].Int64s = []int64{0}
	b.Leaves[1].Null(0, 0)
	b.EndRow()
	return b
}

// Metadata comes from a disk: whatever it is, it is refused or makes a tail of its own size.
func FuzzUnmarshalMeta(f *testing.F) {
	s := &schema.Schema{Fields: []schema.Field{{ID: 1, Name: "n", Type: schema.Type{Kind: schema.Long}, Required: true}}}
	e := encoder(f, s)
	b := column.NewBatch(s)
	b.Leaves[0].Int64s = []int64{1, 2, 3}
	b.Rows = 3
	seed, err := encode(f, e, b).Meta.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parquetio.UnmarshalMeta(text)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		groups := []parquetio.Placed{{Meta: m, Offset: 4}}
		if size := e.TailSize(groups); size > 0 && size < 1<<20 {
			if tail, err := e.Tail(groups, 1<<20); err == nil && int64(len(tail)) != size {
				t.Fatalf("tail of %d bytes, want %d", len(tail), size)
			}
		}
	})
}

func TestColumnsKeepTheSchemasOrderAndIDs(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	data := file(t, e, 0, encode(t, e, parquetiotest.Batch(newRand(1), s, 10)))
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, el := range f.Metadata().Schema[1:] {
		id := ""
		if el.FieldID != 0 {
			id = fmt.Sprint(el.FieldID)
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", el.Name, id, el.LogicalType.String())))
	}
	want := []string{
		"kafka_partition 1", "kafka_offset 2", "kafka_timestamp 3 TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)",
		"flag 4", "qty 5", "big 6", "f32 7", "f64 8", "d9 9 DECIMAL(9,2)", "d18 10 DECIMAL(18,4)", "d38 11 DECIMAL(38,10)",
		"day 12 DATE", "local 13 TIMESTAMP(isAdjustedToUTC=false,unit=MICROS)", "at 14 TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)",
		"status 15 STRING", "note 16 STRING", "raw 17", "address 18", "city 19 STRING", "zip 33",
		"tags 20 LIST", "list", "element 21 STRING", "attrs 22 MAP", "key_value", "key 23 STRING", "value 24",
		"points 29 LIST", "list", "element 30", "x 31", "y 32 DECIMAL(25,3)", "_row_id 2147483540",
	}
	if !slices.Equal(got, want) {
		t.Errorf("schema\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The bytes may only change together with codeVersion or a library's version, which is in the golden file.
func TestGoldenBytes(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	var out strings.Builder
	fmt.Fprintf(&out, "encoding id %s\nfile base %d\n", parquetio.EncodingID("test"), e.FileBase())
	for _, rows := range []int{1, 1024, 9000} {
		rg := encode(t, e, parquetiotest.Batch(newRand(uint64(rows)), s, rows))
		fmt.Fprintf(&out, "rows %d: size %d tail %d crc %08x file %x\n", rows, rg.SizeBytes, rg.TailBytes, rg.CRC, sha256.Sum256(file(t, e, 100, rg)))
	}
	const golden = "testdata/golden.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("bytes changed: raise codeVersion or name the library's version, then run with -rewrite\n%s\nwant\n%s", &out, want)
	}
}

func TestLibraryVersionsInTheEncodingIDAreThoseInGoMod(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range parquetio.Libraries() {
		if !strings.Contains(string(mod), "github.com/"+v) {
			t.Errorf("go.mod does not require %s: bytes may differ, put the new version into the encoding id", v)
		}
	}
}

func TestBytesDoNotDependOnWhatWasEncodedBefore(t *testing.T) {
	s := parquetiotest.Schema()
	b := parquetiotest.Batch(newRand(5), s, 4000)
	want := encode(t, encoder(t, s), b)
	e := encoder(t, s)
	for seed := range uint64(4) {
		encode(t, e, parquetiotest.Batch(newRand(100+seed), s, 1+int(seed)*700))
		got := encode(t, e, b)
		if !bytes.Equal(got.Pages, want.Pages) || got.CRC != want.CRC || got.TailBytes != want.TailBytes {
			t.Fatalf("after seed %d: other bytes", seed)
		}
	}
}

func TestMetadataSurvivesTheCache(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	for seed := range uint64(20) {
		rg := encode(t, e, parquetiotest.Batch(newRand(seed), s, 1+int(seed)*13))
		want := file(t, e, 0, rg)
		b, err := rg.Meta.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if rg.Meta, err = parquetio.UnmarshalMeta(b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file(t, e, 0, rg), want) {
			t.Errorf("seed %d: another file from cached metadata", seed)
		}
		if rg.Meta.Rows() != rg.Rows || rg.Meta.SizeBytes() != rg.SizeBytes {
			t.Errorf("seed %d: %d rows of %d bytes", seed, rg.Meta.Rows(), rg.Meta.SizeBytes())
		}
	}
}

func TestDeclaredSizeIsEnoughForAnyNumberOfRowGroups(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	rg := encode(t, e, parquetiotest.Batch(newRand(3), s, 5))
	for _, n := range []int{1, 14, 15, 16, 130, 700} {
		groups := slices.Repeat([]parquetio.RowGroup{rg}, n)
		for _, hole := range []int64{0, 1 << 20} {
			data := file(t, e, hole, groups...)
			f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
			if err != nil || f.NumRows() != int64(n)*rg.Rows {
				t.Fatalf("%d groups: %v", n, err)
			}
		}
	}
	// Far places have long varints.
	far := []parquetio.Placed{{Meta: rg.Meta, Offset: 1<<40 - 1<<30}}
	if _, err := e.Tail(far, 1<<40); err != nil {
		t.Errorf("at the largest place: %v", err)
	}
	if _, err := e.Tail(far, 1<<40+1); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("above the largest size: %v", err)
	}
}

func TestEmptyBatchIsNoRowGroup(t *testing.T) {
	s := parquetiotest.Schema()
	if rg := encode(t, encoder(t, s), column.NewBatch(s)); rg.Rows != 0 || rg.Pages != nil || rg.Meta != nil {
		t.Errorf("got %+v", rg)
	}
}

func TestContradictoryBatchIsInvalid(t *testing.T) {
	s := parquetiotest.Schema()
	e := encoder(t, s)
	damage := map[string]func(*column.Batch){
		"a row too many":  func(b *column.Batch) { b.Rows++ },
		"a value missing": func(b *column.Batch) { b.Leaves[0].Int32s = b.Leaves[0].Int32s[1:] },
		"a value extra":   func(b *column.Batch) { b.Leaves[4].Int32s = append(b.Leaves[4].Int32s, 1) },
		"a level missing": func(b *column.Batch) { b.Leaves[19].Rep = b.Leaves[19].Rep[1:] },
		"a leaf missing":  func(b *column.Batch) { b.Leaves = b.Leaves[1:] },
	}
	for name, f := range damage {
		b := parquetiotest.Batch(newRand(1), s, 50)
		f(b)
		if _, err := e.Encode(b); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNaNMeansNoBounds(t *testing.T) {
	s := &schema.Schema{Fields: []schema.Field{{ID: 1, Name: "a", Type: schema.Type{Kind: schema.Double}, Required: true}}}
	e := encoder(t, s)
	b := column.NewBatch(s)
	for _, v := range []float64{1, math.NaN(), 3} {
		b.Leaves[0].Float64s = append(b.Leaves[0].Float64s, v)
		b.EndRow()
	}
	rg := encode(t, e, b)
	if c := rg.Columns[0]; c.Lower != nil || c.Upper != nil || c.ValueCount != 3 {
		t.Errorf("bounds %+v", c)
	}
	st := rg.Meta.RowGroup.Columns[0].MetaData.Statistics
	if st.MinValue != nil || st.MaxValue != nil || len(rg.Meta.ColumnIndexes[0].NullPages) != 0 {
		t.Errorf("the file states bounds: %+v", st)
	}
	data := file(t, e, 0, rg)
	if _, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data))); err != nil {
		t.Error(err)
	}
}
