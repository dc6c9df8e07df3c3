package icebergscan_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/twmb/avro/ocf"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
)

func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "name", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "day", Type: iceberg.PrimitiveTypes.Date},
		iceberg.NestedField{ID: 4, Name: "price", Type: iceberg.DecimalTypeOf(9, 2)},
		iceberg.NestedField{ID: 5, Name: "nest", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 6, Name: "x", Type: iceberg.PrimitiveTypes.Int32, Required: true},
		}}},
	)
}

func specs() []iceberg.PartitionSpec {
	return []iceberg.PartitionSpec{
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}}),
		iceberg.NewPartitionSpecID(2,
			iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1001, Name: "day", Transform: iceberg.IdentityTransform{}},
			iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1002, Name: "name", Transform: iceberg.IdentityTransform{}},
			iceberg.PartitionField{SourceIDs: []int{4}, FieldID: 1003, Name: "price", Transform: iceberg.IdentityTransform{}},
		),
	}
}

func long(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

// randomFile makes a file with whatever a manifest can state.
func randomFile(r *rand.Rand, n int) scantest.File {
	f := scantest.File{Path: fmt.Sprintf("s3://lake/db/t/data/%05d.parquet", n), Spec: r.IntN(3), Records: r.Int64N(1 << 40), Size: r.Int64N(1 << 50)}
	switch f.Spec {
	case 1:
		f.Partition = map[int]any{1000: int32(r.IntN(4))}
	case 2:
		f.Partition = map[int]any{1001: iceberg.Date(r.IntN(100) - 50), 1002: string(rune('a' + r.IntN(3))), 1003: nil}
		if r.IntN(2) == 0 {
			f.Partition[1002] = nil
		}
	}
	switch r.IntN(4) {
	case 0:
		f.Content, f.EqualityIDs = iceberg.EntryContentEqDeletes, []int{1, 2}
	case 1:
		f.Content, f.Reference = iceberg.EntryContentPosDeletes, "s3://lake/db/t/data/00000.parquet"
	}
	for id := 1; id <= 6; id++ {
		if r.IntN(2) == 0 {
			continue
		}
		if f.Lower == nil {
			f.Lower, f.Upper, f.Values, f.Nulls = map[int][]byte{}, map[int][]byte{}, map[int]int64{}, map[int]int64{}
		}
		f.Lower[id], f.Upper[id] = long(r.Int64()), []byte{}
		f.Values[id] = r.Int64N(1000)
		if r.IntN(2) == 0 {
			f.Nulls[id] = 0
		}
	}
	return f
}

// The decoder against iceberg-go's own reader, on manifests of random files with every codec.
func TestEntriesAreWhatIcebergGoReads(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	for version := 2; version <= 3; version++ {
		table := scantest.New(t, version, schema(), specs()...)
		n := 0
		for range 6 {
			var files []scantest.File
			for range r.IntN(40) {
				files = append(files, randomFile(r, n))
				n++
			}
			var removed []string
			for _, f := range table.Live() {
				if r.IntN(5) == 0 {
					removed = append(removed, f.Path)
				}
			}
			table.Commit("overwrite", nil, files, removed...)
		}
		meta, err := icebergscan.ParseTable(table.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		head, err := meta.Head("main")
		if err != nil {
			t.Fatal(err)
		}
		list, err := iceberg.ReadManifestList(bytes.NewReader(table.Lake.Objects[head.ManifestList]))
		if err != nil {
			t.Fatal(err)
		}
		mine, err := icebergscan.ReadManifestList(bytes.NewReader(table.Lake.Objects[head.ManifestList]))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != len(mine) {
			t.Fatalf("seed %d: %d manifests, want %d", seed, len(mine), len(list))
		}
		for i, m := range list {
			compareManifest(t, seed, table.Lake.Objects[m.FilePath()], m, &mine[i])
		}
	}
}

func compareManifest(t *testing.T, seed uint64, raw []byte, m iceberg.ManifestFile, mine *icebergscan.Manifest) {
	t.Helper()
	if mine.Path != m.FilePath() || mine.Length != m.Length() || mine.SpecID != m.PartitionSpecID() || int32(mine.Content) != int32(m.ManifestContent()) ||
		mine.SequenceNumber != m.SequenceNum() || mine.MinSequenceNumber != m.MinSequenceNum() || mine.AddedSnapshotID != m.SnapshotID() ||
		mine.AddedFiles != int64(m.AddedDataFiles()) || mine.ExistingFiles != int64(m.ExistingDataFiles()) || mine.DeletedFiles != int64(m.DeletedDataFiles()) ||
		mine.AddedRows != m.AddedRows() || mine.ExistingRows != m.ExistingRows() {
		t.Fatalf("seed %d: manifest %+v, want %+v", seed, mine, m)
	}
	want, err := iceberg.ReadManifest(m, bytes.NewReader(raw), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, codec := range []ocf.Codec{nil, ocf.SnappyCodec(), zstdCodec(t)} {
		packed := raw
		if codec != nil {
			packed = recode(t, raw, codec)
		}
		i := 0
		for e, err := range icebergscan.Entries(bytes.NewReader(packed), mine, icebergscan.Want{AllStats: true, Deleted: true}) {
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			compareEntry(t, seed, e, want[i])
			i++
		}
		if i != len(want) {
			t.Fatalf("seed %d: %d entries, want %d", seed, i, len(want))
		}
	}
}

func zstdCodec(t *testing.T) ocf.Codec {
	t.Helper()
	c, err := ocf.ZstdCodec(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recode writes the records of a container file again with another codec and small blocks.
func recode(t *testing.T, raw []byte, codec ocf.Codec) []byte {
	t.Helper()
	r, err := ocf.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // a test
	meta := map[string][]byte{}
	for k, v := range r.Metadata() {
		if k != "avro.schema" && k != "avro.codec" {
			meta[k] = v
		}
	}
	var buf bytes.Buffer
	w, err := ocf.NewWriter(&buf, r.Schema(), ocf.WithSchema(r.Schema().String()), ocf.WithMetadata(meta), ocf.WithCodec(codec), ocf.WithBlockCount(3))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var v any
		if err := r.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if err := w.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func compareEntry(t *testing.T, seed uint64, e *icebergscan.Entry, want iceberg.ManifestEntry) {
	t.Helper()
	f := want.DataFile()
	ids := make([]int, 0, len(e.EqualityIDs))
	for _, id := range e.EqualityIDs {
		ids = append(ids, int(id))
	}
	ref := ""
	if p := f.ReferencedDataFile(); p != nil {
		ref = *p
	}
	if int8(e.Status) != int8(want.Status()) || e.SnapshotID != want.SnapshotID() || e.SequenceNumber != want.SequenceNum() || e.FileSequenceNumber != *want.FileSequenceNum() ||
		int8(e.Content) != int8(f.ContentType()) || string(e.Path) != f.FilePath() || string(e.Format) != string(f.FileFormat()) ||
		e.Records != f.Count() || e.SizeBytes != f.FileSizeBytes() || !slices.Equal(ids, f.EqualityFieldIDs()) || string(e.ReferencedDataFile) != ref {
		t.Fatalf("seed %d: %+v, want %+v", seed, e, want)
	}
	for id := 1; id <= 6; id++ {
		s := e.Stats(int32(id))
		lower, has := f.LowerBoundValues()[id]
		values, hasValues := f.ValueCounts()[id]
		nulls, hasNulls := f.NullValueCounts()[id]
		if (s.Lower != nil) != has || !bytes.Equal(s.Lower, lower) || (s.Upper != nil) != has || !bytes.Equal(s.Upper, f.UpperBoundValues()[id]) ||
			hasValues && s.Values != values || !hasValues && s.Values != icebergscan.Absent || hasNulls && s.Nulls != nulls || !hasNulls && s.Nulls != icebergscan.Absent {
			t.Fatalf("seed %d: column %d: %+v, want bounds %v %x, counts %d %d", seed, id, s, has, lower, values, nulls)
		}
	}
	fieldIDs := []int{}
	for id := range f.Partition() {
		fieldIDs = append(fieldIDs, id)
	}
	slices.Sort(fieldIDs)
	for i, v := range e.Partition {
		want := f.Partition()[fieldIDs[i]]
		switch w := want.(type) {
		case nil:
			if v.Kind != icebergscan.Null {
				t.Fatalf("seed %d: partition %+v, want null", seed, v)
			}
		case int32:
			if v.Kind != icebergscan.Int || v.Int != int64(w) {
				t.Fatalf("seed %d: partition %+v, want %d", seed, v, w)
			}
		case iceberg.Date:
			if v.Kind != icebergscan.Int || v.Int != int64(w) {
				t.Fatalf("seed %d: partition %+v, want %d", seed, v, w)
			}
		case string:
			if v.Kind != icebergscan.String || string(v.Bytes) != w {
				t.Fatalf("seed %d: partition %+v, want %s", seed, v, w)
			}
		default:
			t.Fatalf("seed %d: unexpected %T", seed, want)
		}
	}
}

func open(t *testing.T, table *scantest.Table) *icebergscan.Scan {
	t.Helper()
	meta, err := icebergscan.ParseTable(table.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	head, err := meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	s, err := icebergscan.Open(t.Context(), table.Lake, meta, head)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScanYieldsLiveFilesOfOneContent(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()...)
	for i := range 20 { // more manifests than are read ahead
		table.Commit("append", nil, []scantest.File{
			{Path: fmt.Sprintf("d%d", i), Records: 1},
			{Path: fmt.Sprintf("e%d", i), Records: 1, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}},
		})
	}
	table.Commit("replace", nil, nil, "d3", "e7")
	scan := open(t, table)
	for _, content := range []icebergscan.ManifestContent{icebergscan.DataManifest, icebergscan.DeletesManifest} {
		var got []string
		for e, err := range scan.Entries(t.Context(), content, icebergscan.Want{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s@%d", e.Path, e.SequenceNumber))
		}
		var want []string
		for _, f := range table.Live() {
			if (f.Content == iceberg.EntryContentData) == (content == icebergscan.DataManifest) {
				want = append(want, fmt.Sprintf("%s@%d", f.Path, f.Seq))
			}
		}
		if len(got) != 19 || !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range scan.Entries(t.Context(), icebergscan.DataManifest, icebergscan.Want{}) {
		break // an early end leaves nothing running: the test's leak would show under -race
	}
}

func TestAMissingManifestIsAnError(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()...)
	table.Commit("append", nil, []scantest.File{{Path: "d", Records: 1}})
	scan := open(t, table)
	delete(table.Lake.Objects, scan.Manifests()[0].Path)
	var got error
	for _, err := range scan.Entries(t.Context(), icebergscan.DataManifest, icebergscan.Want{}) {
		got = errors.Join(got, err)
	}
	if !errors.Is(got, fault.ErrNotFound) {
		t.Errorf("got %v", got)
	}
}

func TestCorruptManifestsAreErrors(t *testing.T) {
	table := scantest.New(t, 3, schema(), specs()...)
	r := rand.New(rand.NewPCG(1, 1))
	var files []scantest.File
	for i := range 50 {
		files = append(files, randomFile(r, i))
	}
	table.Commit("append", nil, files)
	scan := open(t, table)
	m := scan.Manifests()[0]
	raw := table.Lake.Objects[m.Path]
	read := func(raw []byte, m icebergscan.Manifest) (int, error) {
		n := 0
		for _, err := range icebergscan.Entries(bytes.NewReader(raw), &m, icebergscan.Want{AllStats: true}) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	all, err := read(raw, m)
	if err != nil || all == 0 {
		t.Fatal(all, err)
	}
	for cut := 0; cut < len(raw); cut += 97 {
		if _, err := read(raw[:cut], m); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("cut at %d of %d: %v", cut, len(raw), err)
		}
	}
	wrong := m
	wrong.Content = 1 - m.Content
	if _, err := read(raw, wrong); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("content that contradicts the list: %v", err)
	}
}

func TestPartitionPath(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()...)
	table.Commit("append", nil, []scantest.File{
		{Path: "a", Records: 1, Spec: 1, Partition: map[int]any{1000: int32(3)}},
		{Path: "b", Records: 1, Spec: 2, Partition: map[int]any{1001: iceberg.Date(19000), 1002: "a/b", 1003: nil}},
		{Path: "c", Records: 1, Spec: 2, Partition: map[int]any{1001: nil, 1002: "", 1003: nil}},
		{Path: "d", Records: 1},
	})
	scan := open(t, table)
	got := map[string]string{}
	for e, err := range scan.Entries(t.Context(), icebergscan.DataManifest, icebergscan.Want{}) {
		if err != nil {
			t.Fatal(err)
		}
		spec, err := scan.Table.Spec(e.SpecID)
		if err != nil {
			t.Fatal(err)
		}
		got[string(e.Path)] = scan.Table.PartitionPath(spec, e.Partition)
	}
	for path, want := range map[string]string{
		"a": "id_bucket=3", "b": "day=2022-01-08/name=a%2Fb/price=null", "c": "day=null/name=/price=null", "d": "",
	} {
		if got[path] != want {
			t.Errorf("%s: %q, want %q", path, got[path], want)
		}
	}
}

func TestFieldsOfEverySchema(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()...)
	table.Schemas = append(table.Schemas, iceberg.NewSchema(1,
		iceberg.NestedField{ID: 1, Name: "key", Type: iceberg.PrimitiveTypes.Int64, Required: true}))
	meta, err := icebergscan.ParseTable(table.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := meta.Field(1); !ok || f.Name != "key" || !f.Required || !meta.Current(1) {
		t.Errorf("renamed: %+v", f)
	}
	if f, ok := meta.Field(6); !ok || f.Name != "nest.x" || f.Type != "int" || meta.Current(6) {
		t.Errorf("dropped: %+v", f)
	}
	if f, ok := meta.Field(4); !ok || f.Type != "decimal(9,2)" {
		t.Errorf("decimal: %+v", f)
	}
}

func FuzzEntries(f *testing.F) {
	table := scantest.New(f, 3, schema(), specs()...)
	r := rand.New(rand.NewPCG(3, 3))
	var files []scantest.File
	for i := range 12 {
		files = append(files, randomFile(r, i))
	}
	table.Commit("append", nil, files)
	for _, raw := range table.Lake.Objects {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := icebergscan.Manifest{Path: "m", Content: icebergscan.DeletesManifest}
		for e, err := range icebergscan.Entries(bytes.NewReader(raw), &m, icebergscan.Want{AllStats: true}) {
			if err != nil {
				break
			}
			e.Target()
		}
		_, _ = icebergscan.ReadManifestList(bytes.NewReader(raw)) //nolint:errcheck // only panics count
		_, _ = icebergscan.ParseTable(raw)                        //nolint:errcheck // only panics count
	})
}
