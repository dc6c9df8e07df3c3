package iceberg

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	foreign "github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/fault"
)

// update rewrites the golden files. A diff in them needs a new Version: names promise bytes.
var update = flag.Bool("update", false, "rewrite the golden files")

const schemaJSON = `{"type":"struct","schema-id":0,"fields":[` +
	`{"id":1,"name":"kafka_partition","required":true,"type":"int"},` +
	`{"id":2,"name":"kafka_offset","required":true,"type":"long"},` +
	`{"id":3,"name":"kafka_timestamp","required":true,"type":"timestamptz"},` +
	`{"id":4,"name":"id","required":false,"type":"long"},` +
	`{"id":5,"name":"tags","required":false,"type":{"type":"list","element-id":6,"element":"string","element-required":false}}]}`

const dataPath = "s3://frazil/orders-abcdefghijklmnop/current/data/0/0-4096-v1-b12.parquet"

func dataManifest(formatVersion int) Manifest {
	return Manifest{
		FormatVersion: formatVersion, Content: Data, SnapshotID: 77, SchemaJSON: []byte(schemaJSON),
		Entries: []Entry{
			{SnapshotID: 77, File: File{
				Path: dataPath, Format: Parquet, Rows: 4000, Size: 123456, SplitOffsets: []int64{4, 60000},
				FirstRowID: 1 << 44,
				Columns: []Column{
					{FieldID: 4, Lower: []byte{1, 0, 0, 0, 0, 0, 0, 0}, Upper: []byte{9, 0, 0, 0, 0, 0, 0, 0}, Values: 4000, Nulls: 7},
					{FieldID: 2, Lower: []byte{}, Values: 4000},
					{FieldID: 6, Values: 12, Nulls: 12},
				},
			}},
			{SnapshotID: 5, File: File{Path: dataPath + "2", Format: Parquet, Rows: 3, Size: 99, FirstRowID: 4096}},
		},
	}
}

func deleteManifest(formatVersion int) Manifest {
	f := File{Path: "s3://frazil/x/deletes/v2/0/0-4096-x9.parquet", Format: Parquet, Rows: 12, Size: 2000, ReferencedDataFile: dataPath}
	if formatVersion == V3 {
		f.Path, f.Format, f.ContentOffset, f.ContentSize = "s3://frazil/x/deletes/v3/0/0-4096-x9.puffin", Puffin, 4, 60
	}
	return Manifest{
		FormatVersion: formatVersion, Content: PositionDeletes, SnapshotID: 77, SchemaJSON: []byte(schemaJSON),
		Entries: []Entry{{SnapshotID: 77, File: f}},
	}
}

func metadata(formatVersion int) Metadata {
	return Metadata{
		FormatVersion: formatVersion, UUID: "5f0ee4a5-7b6c-5a44-8a0e-111111111111",
		Location: "s3://frazil/orders-abcdefghijklmnop/current", LastUpdatedMs: 1_700_000_000_000,
		Schemas: [][]byte{[]byte(schemaJSON)}, Properties: map[string]string{"frazil.topic": "orders", "frazil.plan": "eager"},
		Snapshots: []Snapshot{
			{ID: 5, TimestampMs: 1_700_000_000_500, ManifestList: "s3://frazil/a.avro"},
			{ID: 77, ParentID: 5, TimestampMs: 1_700_000_000_400, ManifestList: "s3://frazil/b.avro",
				Totals: Totals{DataFiles: 2, Rows: 4003, DeleteFiles: 1, DeletedRows: 12}, Extra: map[string]string{"frazil.end.0": "4096"}},
		},
		Tags: map[string]int64{"month-end": 5}, NextRowID: 3 << 44,
	}
}

func TestManifestIsReadBack(t *testing.T) {
	for _, v := range []int{V2, V3} {
		for _, m := range []Manifest{dataManifest(v), deleteManifest(v)} {
			data, mf, err := RenderManifest(m)
			if err != nil {
				t.Fatal(err)
			}
			if mf.Length != int64(len(data)) {
				t.Errorf("manifest length %d, stated %d", len(data), mf.Length)
			}
			mf.Path = "s3://frazil/m.avro"
			lines := readList(t, ManifestList{FormatVersion: v, SnapshotID: 77, Manifests: []ManifestFile{mf}})
			compareEntries(t, m, lines[0], data)
		}
	}
}

func readList(t *testing.T, l ManifestList) []foreign.ManifestFile {
	t.Helper()
	data, err := RenderManifestList(l)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := foreign.ReadManifestList(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func compareEntries(t *testing.T, m Manifest, line foreign.ManifestFile, data []byte) {
	t.Helper()
	entries, err := foreign.ReadManifest(line, bytes.NewReader(data), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(m.Entries) {
		t.Fatalf("%d entries, want %d", len(entries), len(m.Entries))
	}
	for i, e := range entries {
		want := &m.Entries[i]
		status := foreign.EntryStatusEXISTING
		if want.SnapshotID == m.SnapshotID {
			status = foreign.EntryStatusADDED
		}
		if e.Status() != status || e.SnapshotID() != want.SnapshotID || e.SequenceNum() != 1 || *e.FileSequenceNum() != 1 {
			t.Errorf("entry %d: status %v, snapshot %d, sequence %d/%d", i, e.Status(), e.SnapshotID(), e.SequenceNum(), *e.FileSequenceNum())
		}
		compareFile(t, m, &want.File, e.DataFile())
	}
}

func compareFile(t *testing.T, m Manifest, want *File, got foreign.DataFile) {
	t.Helper()
	if got.FilePath() != want.Path || string(got.FileFormat()) != want.Format || got.Count() != want.Rows || got.FileSizeBytes() != want.Size {
		t.Errorf("got %s %s %d rows %d bytes", got.FilePath(), got.FileFormat(), got.Count(), got.FileSizeBytes())
	}
	if !slices.Equal(got.SplitOffsets(), want.SplitOffsets) || got.SortOrderID() != nil || len(got.Partition()) != 0 {
		t.Errorf("splits %v, sort order %v, partition %v", got.SplitOffsets(), got.SortOrderID(), got.Partition())
	}
	if m.Content == PositionDeletes {
		compareDeletes(t, m, want, got)
		return
	}
	if got.ContentType() != foreign.EntryContentData || got.ReferencedDataFile() != nil {
		t.Errorf("content %v refers to %v", got.ContentType(), got.ReferencedDataFile())
	}
	if m.FormatVersion == V3 && (got.FirstRowID() == nil || *got.FirstRowID() != want.FirstRowID) {
		t.Errorf("first row id %v, want %d", got.FirstRowID(), want.FirstRowID)
	}
	values, nulls, lower, upper := map[int]int64{}, map[int]int64{}, map[int][]byte{}, map[int][]byte{}
	for _, c := range want.Columns {
		values[int(c.FieldID)], nulls[int(c.FieldID)] = c.Values, c.Nulls
		if c.Lower != nil {
			lower[int(c.FieldID)] = c.Lower
		}
		if c.Upper != nil {
			upper[int(c.FieldID)] = c.Upper
		}
	}
	if !maps.Equal(got.ValueCounts(), values) || !maps.Equal(got.NullValueCounts(), nulls) {
		t.Errorf("values %v nulls %v", got.ValueCounts(), got.NullValueCounts())
	}
	if !maps.EqualFunc(got.LowerBoundValues(), lower, bytes.Equal) || !maps.EqualFunc(got.UpperBoundValues(), upper, bytes.Equal) {
		t.Errorf("lower %v upper %v", got.LowerBoundValues(), got.UpperBoundValues())
	}
}

func compareDeletes(t *testing.T, m Manifest, want *File, got foreign.DataFile) {
	t.Helper()
	path := map[int][]byte{int(PathFieldID): []byte(want.ReferencedDataFile)}
	if got.ContentType() != foreign.EntryContentPosDeletes || got.ReferencedDataFile() == nil || *got.ReferencedDataFile() != want.ReferencedDataFile {
		t.Errorf("content %v refers to %v", got.ContentType(), got.ReferencedDataFile())
	}
	if !maps.EqualFunc(got.LowerBoundValues(), path, bytes.Equal) || !maps.EqualFunc(got.UpperBoundValues(), path, bytes.Equal) {
		t.Errorf("path bounds %v..%v", got.LowerBoundValues(), got.UpperBoundValues())
	}
	if got.FirstRowID() != nil {
		t.Errorf("a delete file with first row id %d", *got.FirstRowID())
	}
	if m.FormatVersion == V3 && (*got.ContentOffset() != want.ContentOffset || *got.ContentSizeInBytes() != want.ContentSize) {
		t.Errorf("deletion vector at %d+%d", *got.ContentOffset(), *got.ContentSizeInBytes())
	}
}

func TestManifestListIsReadBack(t *testing.T) {
	for _, v := range []int{V2, V3} {
		_, data, err := RenderManifest(dataManifest(v))
		if err != nil {
			t.Fatal(err)
		}
		_, deletes, err := RenderManifest(deleteManifest(v))
		if err != nil {
			t.Fatal(err)
		}
		data.Path, deletes.Path = "s3://frazil/d.avro", "s3://frazil/e.avro"
		lines := readList(t, ManifestList{FormatVersion: v, SnapshotID: 77, ParentID: 5, Manifests: []ManifestFile{data, deletes}})
		d, e := lines[0], lines[1]
		if d.Version() != v || d.FilePath() != data.Path || d.Length() != data.Length || d.SequenceNum() != 1 || d.MinSequenceNum() != 1 {
			t.Errorf("v%d: %v", v, d)
		}
		if d.AddedDataFiles() != 1 || d.ExistingDataFiles() != 1 || d.AddedRows() != 4000 || d.ExistingRows() != 3 || d.SnapshotID() != 77 {
			t.Errorf("v%d: %d+%d files, %d+%d rows", v, d.AddedDataFiles(), d.ExistingDataFiles(), d.AddedRows(), d.ExistingRows())
		}
		if d.ManifestContent() != foreign.ManifestContentData || e.ManifestContent() != foreign.ManifestContentDeletes {
			t.Errorf("v%d: contents %v %v", v, d.ManifestContent(), e.ManifestContent())
		}
		if v == V3 && (*d.FirstRowID() != 4096 || e.FirstRowID() != nil) {
			t.Errorf("first row ids %v %v", d.FirstRowID(), e.FirstRowID())
		}
	}
	for _, v := range []int{V2, V3} {
		if lines := readList(t, ManifestList{FormatVersion: v, SnapshotID: 1}); len(lines) != 0 {
			t.Errorf("v%d: an empty list has %d lines", v, len(lines))
		}
	}
}

// Blocks are closed by bytes, so a long manifest has several; every entry must come back in order.
func TestManyBlocks(t *testing.T) {
	m := dataManifest(V3)
	m.Entries = nil
	for i := range 5000 {
		m.Entries = append(m.Entries, Entry{SnapshotID: int64(i % 3), File: File{
			Path: dataPath, Format: Parquet, Rows: int64(i) + 1, Size: 10, FirstRowID: int64(i)}})
	}
	data, mf, err := RenderManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	mf.Path = "s3://frazil/m.avro"
	compareEntries(t, m, readList(t, ManifestList{FormatVersion: V3, SnapshotID: 77, Manifests: []ManifestFile{mf}})[0], data)
}

func TestGoldenBytes(t *testing.T) {
	for _, v := range []int{V2, V3} {
		suffix := map[int]string{V2: "-v2", V3: "-v3"}[v]
		data, mf, err := RenderManifest(dataManifest(v))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "data"+suffix+".avro", data)
		deletes, _, err := RenderManifest(deleteManifest(v))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "deletes"+suffix+".avro", deletes)
		mf.Path = "s3://frazil/m.avro"
		list, err := RenderManifestList(ManifestList{FormatVersion: v, SnapshotID: 77, ParentID: 5, Manifests: []ManifestFile{mf}})
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "list"+suffix+".avro", list)
		meta, err := RenderMetadata(metadata(v))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "metadata"+suffix+".json", meta)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: other bytes than before under the same Version", name)
	}
}

// The order in which columns arrive must not show in the bytes.
func TestColumnOrderDoesNotShow(t *testing.T) {
	want, _, err := RenderManifest(dataManifest(V2))
	if err != nil {
		t.Fatal(err)
	}
	m := dataManifest(V2)
	columns := m.Entries[0].File.Columns
	rand.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	got, _, err := RenderManifest(m)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes (%v)", err)
	}
}

func TestWhatReadersMisreadIsRefused(t *testing.T) {
	cases := map[string]func(m *Manifest){
		"no rows":                func(m *Manifest) { m.Entries[0].File.Rows = 0 },
		"no size":                func(m *Manifest) { m.Entries[0].File.Size = 0 },
		"bounded and all null":   func(m *Manifest) { m.Entries[0].File.Columns[0].Nulls = 4000 },
		"more nulls than values": func(m *Manifest) { m.Entries[0].File.Columns[2].Nulls = 13 },
		"data with a reference":  func(m *Manifest) { m.Entries[0].File.ReferencedDataFile = "x" },
		"data as puffin":         func(m *Manifest) { m.Entries[0].File.Format = Puffin },
		"schema is no JSON":      func(m *Manifest) { m.SchemaJSON = []byte("{") },
	}
	for name, plant := range cases {
		m := dataManifest(V2)
		plant(&m)
		if _, _, err := RenderManifest(m); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := deleteManifest(V3)
	m.FormatVersion = V2
	if _, _, err := RenderManifest(m); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("deletion vector in v2: %v", err)
	}
	m = deleteManifest(V3)
	m.Entries[0].File.ContentSize = 0
	if _, _, err := RenderManifest(m); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("deletion vector without a size: %v", err)
	}
}

func TestMetadataSaysWhatReadersNeed(t *testing.T) {
	for _, v := range []int{V2, V3} {
		data, err := RenderMetadata(metadata(v))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		// The list is what ten parsers fail without.
		for _, key := range []string{"format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms",
			"last-column-id", "schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id",
			"sort-orders", "default-sort-order-id", "current-snapshot-id", "snapshots", "refs", "snapshot-log", "metadata-log"} {
			if _, ok := got[key]; !ok {
				t.Errorf("v%d: no %s", v, key)
			}
		}
		if got["last-column-id"] != 6.0 {
			t.Errorf("last column id %v: nested ids count", got["last-column-id"])
		}
		if _, ok := got["next-row-id"]; ok != (v == V3) {
			t.Errorf("v%d: next-row-id is there: %v", v, ok)
		}
		snapshots := got["snapshots"].([]any)
		if _, ok := snapshots[0].(map[string]any)["parent-snapshot-id"]; ok {
			t.Error("the first snapshot states a parent")
		}
		log := got["snapshot-log"].([]any)
		if log[1].(map[string]any)["timestamp-ms"].(float64) < log[0].(map[string]any)["timestamp-ms"].(float64) {
			t.Error("the snapshot log descends")
		}
	}
}

func TestEmptyTable(t *testing.T) {
	m := metadata(V3)
	m.Snapshots, m.Tags = nil, nil
	data, err := RenderMetadata(m)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if _, ok := got["current-snapshot-id"]; ok || len(got["refs"].(map[string]any)) != 0 {
		t.Errorf("an empty table has a current snapshot: %s", data)
	}
}

func TestMetadataThatContradictsItselfIsRefused(t *testing.T) {
	cases := map[string]func(m *Metadata){
		"unknown tag":        func(m *Metadata) { m.Tags["x"] = 6 },
		"tag named main":     func(m *Metadata) { m.Tags["main"] = 5 },
		"same snapshot":      func(m *Metadata) { m.Snapshots[0].ID = 77 },
		"no schema":          func(m *Metadata) { m.CurrentSchemaID = 1 },
		"snapshot's schema":  func(m *Metadata) { m.Snapshots[0].SchemaID = 1 },
		"schema without id":  func(m *Metadata) { m.Schemas[0] = []byte(`{"type":"struct","fields":[]}`) },
		"schema is not JSON": func(m *Metadata) { m.Schemas[0] = []byte(`{`) },
	}
	for name, plant := range cases {
		m := metadata(V2)
		plant(&m)
		if _, err := RenderMetadata(m); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
