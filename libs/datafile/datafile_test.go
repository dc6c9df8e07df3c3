package datafile_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

func column(id int32, name, typ string) datafile.Column {
	return datafile.Column{Field: icebergscan.Field{ID: id, Name: name, Type: typ, Path: []int32{id}}}
}

// keys reads the keys of a file.
func keys(t testing.TB, src datafile.Source, o datafile.Options, columns ...datafile.Column) ([]string, error) {
	t.Helper()
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	var out []string
	for b, err := range datafile.Read(t.Context(), src, columns, o) {
		if err != nil {
			return out, err
		}
		for i := range b.Rows {
			out = append(out, string(b.AppendKey(nil, i, order)))
		}
	}
	return out, nil
}

func source(body []byte, format string) datafile.Source {
	return datafile.Source{Path: "f", Format: format, Reader: bytes.NewReader(body), Size: int64(len(body))}
}

func TestFilesWithoutFieldIDs(t *testing.T) {
	schema := parquet.NewSchema("t", parquet.Group{"key": parquet.Int(64), "old_name": parquet.Optional(parquet.String())})
	var out bytes.Buffer
	w := parquet.NewWriter(&out, schema)
	if _, err := w.WriteRows([]parquet.Row{{parquet.Int64Value(5).Level(0, 0, 0), parquet.ByteArrayValue([]byte("a")).Level(0, 1, 1)}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src := source(out.Bytes(), "parquet")
	if _, err := keys(t, src, datafile.Options{}, column(1, "id", "long")); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("without a mapping: %v", err)
	}
	names, err := datafile.ParseNameMapping(`[{"field-id":1,"names":["id","key"]},{"field-id":2,"names":["name","old_name"]},{"names":["x"]}]`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := keys(t, src, datafile.Options{Names: names}, column(2, "name", "string"), column(1, "id", "long"), column(9, "gone", "int"))
	if want := "\x01\x01a" + "\x01\x00\x00\x00\x00\x00\x00\x00\x05" + "\x00"; err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := datafile.ParseNameMapping("{"); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a mapping that is no JSON: %v", err)
	}
}

func TestTypesThatDoNotFit(t *testing.T) {
	body, err := draintest.Parquet(0, []int{draintest.ID, draintest.Name}, []draintest.Row{{draintest.ID: int64(1)}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []datafile.Column{
		column(draintest.ID, "id", "string"), column(draintest.Name, "name", "long"), column(draintest.ID, "id", "timestamp"),
		column(draintest.Nested, "nested", "struct"), column(draintest.ID, "id", "variant"),
	} {
		if _, err := keys(t, source(body, "PARQUET"), datafile.Options{}, c); !errors.Is(err, fault.ErrUnsupported) {
			t.Errorf("%s as %s: %v", c.Field.Name, c.Field.Type, err)
		}
	}
	if _, err := keys(t, source(body, "ORC"), datafile.Options{}, column(1, "id", "int")); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("ORC: %v", err)
	}
}

// Damaged bytes are an error or other rows, and never the end of the process.
func TestDamagedFiles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rows := []draintest.Row{}
	for i := range int64(100) {
		rows = append(rows, draintest.Row{draintest.ID: i, draintest.Name: "n", draintest.Score: 1.5})
	}
	columns := []int{draintest.ID, draintest.Name, draintest.Score}
	pq, err := draintest.Parquet(0, columns, rows, 30)
	if err != nil {
		t.Fatal(err)
	}
	avro, err := draintest.Avro(0, columns, rows)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range 600 {
		format, body := "PARQUET", bytes.Clone(pq)
		if i%2 == 0 {
			format, body = "AVRO", bytes.Clone(avro)
		}
		for range 1 + r.IntN(4) {
			body[r.IntN(len(body))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(4) == 0 {
			body = body[:r.IntN(len(body))]
		}
		if _, err := keys(t, source(body, format), datafile.Options{}, column(1, "id", "int"), column(2, "name", "string"), column(3, "score", "float")); err != nil {
			failed++
		}
	}
	if failed < 200 {
		t.Errorf("only %d of 600 damaged files were noticed", failed)
	}
}

// Rows that are asked for come with their positions, and with few others.
func TestOnlySomeRows(t *testing.T) {
	rows := []draintest.Row{}
	for i := range int64(50_000) {
		rows = append(rows, draintest.Row{draintest.ID: i * 3})
	}
	body, err := draintest.Parquet(0, []int{draintest.ID}, rows, 20_000)
	if err != nil {
		t.Fatal(err)
	}
	all, err := keys(t, source(body, "PARQUET"), datafile.Options{}, column(1, "id", "int"))
	if err != nil || len(all) != len(rows) {
		t.Fatal(len(all), err)
	}
	wanted := []int64{5, 19_999, 20_000, 49_999}
	found, read := map[int64]string{}, 0
	for b, err := range datafile.Read(t.Context(), source(body, "PARQUET"), []datafile.Column{column(1, "id", "int")}, datafile.Options{Rows: wanted}) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Rows {
			found[b.First+int64(i)] = string(b.AppendKey(nil, i, []int{0}))
			read++
		}
	}
	for _, row := range wanted {
		if found[row] != all[row] {
			t.Errorf("row %d: %q, want %q", row, found[row], all[row])
		}
	}
	if read > 5000 {
		t.Errorf("%d rows were read for 4", read)
	}
}

func TestInitialDefaults(t *testing.T) {
	body, err := draintest.Parquet(0, []int{draintest.ID}, []draintest.Row{{draintest.ID: int64(1)}}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		typ, text string
		value     icebergscan.Value
	}{
		{"boolean", "true", icebergscan.Value{Kind: icebergscan.Bool, Int: 1}},
		{"int", "-5", icebergscan.Value{Kind: icebergscan.Int, Int: -5}},
		{"long", "5000000000", icebergscan.Value{Kind: icebergscan.Int, Int: 5_000_000_000}},
		{"double", "1.5", icebergscan.Value{Kind: icebergscan.Float, Num: 1.5}},
		{"string", `"a\"b"`, icebergscan.Value{Kind: icebergscan.String, Bytes: []byte(`a"b`)}},
		{"date", `"1969-12-31"`, icebergscan.Value{Kind: icebergscan.Int, Int: -1}},
		{"time", `"00:00:01.5"`, icebergscan.Value{Kind: icebergscan.Int, Int: 1_500_000}},
		{"timestamp", `"1970-01-01T00:00:01.000001"`, icebergscan.Value{Kind: icebergscan.Int, Int: 1_000_001}},
		{"timestamptz", `"1970-01-01T00:00:01+00:00"`, icebergscan.Value{Kind: icebergscan.Int, Int: 1_000_000}},
		{"timestamp_ns", `"1970-01-01T00:00:00.000000007"`, icebergscan.Value{Kind: icebergscan.Int, Int: 7}},
		{"decimal(9,2)", `"-1.29"`, icebergscan.Value{Kind: icebergscan.Decimal, Bytes: []byte{0xff, 0x7f}}},
		{"decimal(9,2)", `"1.28"`, icebergscan.Value{Kind: icebergscan.Decimal, Bytes: []byte{0, 0x80}}},
		{"uuid", `"f79c3e09-677c-4bbd-a479-3f349cb785e7"`, icebergscan.Value{Kind: icebergscan.Binary, Bytes: []byte{0xf7, 0x9c, 0x3e, 0x09, 0x67, 0x7c, 0x4b, 0xbd, 0xa4, 0x79, 0x3f, 0x34, 0x9c, 0xb7, 0x85, 0xe7}}},
		{"fixed[2]", `"00ff"`, icebergscan.Value{Kind: icebergscan.Binary, Bytes: []byte{0, 0xff}}},
		{"int", "null", icebergscan.Value{}},
	} {
		c := column(99, "late", tc.typ)
		c.Field.InitialDefault = []byte(tc.text)
		got, err := keys(t, source(body, "PARQUET"), datafile.Options{}, c)
		if err != nil {
			t.Errorf("%s %s: %v", tc.typ, tc.text, err)
			continue
		}
		want, err := datafile.Constant(c.Field, tc.value)
		if err != nil || got[0] != string(want) {
			t.Errorf("%s %s: %x, want %x, %v", tc.typ, tc.text, got[0], want, err)
		}
	}
}
