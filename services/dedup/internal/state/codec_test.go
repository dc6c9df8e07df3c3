package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/supersede"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

func sampleRecord() *Record {
	return &Record{
		Version: 1 << 40, Epoch: "abcdefghijklmnop", Topic: Topic{ClusterID: "c", ID: kafkapos.TopicID{1, 2, 255}, Name: "shop.orders"},
		Table: "shop_orders", CheckKey: [16]byte{7}, HashKey: [16]byte{9},
		Decoding: Decoding{KeyFormat: "json", ValueFormat: "avro", Envelope: "debezium", KeyFields: []string{"tenant", "id"}},
		Schemas:  [][]byte{[]byte(`{"a":1}`), {}}, ChunkLog2: 20, BlockLog2: 14, Partitions: 12,
		Snapshots: []SnapshotRef{{ID: 1 << 62, TimeMs: 3, Blob: "1-x"}, {ID: 5, TimeMs: 4, Blob: "2-y"}},
		Tags:      []Tag{{Name: "month-end", ID: 5}}, CreatedMs: 1, UpdatedMs: 1 << 41,
	}
}

func samplePage(t testing.TB) *Page {
	t.Helper()
	rng := kafkapos.Range{Start: 64, End: 100}
	b, err := layout.NewBuilder(rng, 6)
	if err != nil {
		t.Fatal(err)
	}
	for off := rng.Start; off < rng.End; off++ {
		if err := b.Add(off, layout.Class(off%3)); err != nil {
			t.Fatal(err)
		}
	}
	layouts, err := b.Layouts()
	if err != nil {
		t.Fatal(err)
	}
	seg, err := marks.NewSegment([]supersede.Mark{{Older: 67, Newer: 80}, {Older: 68, Newer: 99}, {Older: 70, Newer: 71}}, 6)
	if err != nil {
		t.Fatal(err)
	}
	c := &Chunk{
		Number: 1, Known: rng, Layouts: []string{"1-a", "2-b"}, Segments: []string{"3-c"},
		Groups:    []GroupRef{{View: DeletedKeysView, Blob: "4-d", Lowest: 70, Highest: 90}},
		RowGroups: "100-2-e", Encoding: "encodinga2", FileSchema: "schemaaaa2", BaseBytes: 12, SchemaID: 1, Edition: 2,
		Complete: true, FileBytes: 4000, Rows: 12,
	}
	for view := range Views {
		if c.Ledgers[view], err = c.Ledgers[view].Extend(layouts[0], RowsOf(view), seg.Chunks()[0], []kafkapos.Offset{75, 90}); err != nil {
			t.Fatal(err)
		}
	}
	return &Page{Chunks: []*Chunk{{Number: 0, Known: kafkapos.Range{Start: 3, End: 64}, Layouts: []string{"z"}}, c}}
}

// formats is every format: a sample, and a parser that answers the bytes again.
func formats(t testing.TB) map[string]struct {
	sample []byte
	again  func([]byte) ([]byte, error)
} {
	t.Helper()
	type format = struct {
		sample []byte
		again  func([]byte) ([]byte, error)
	}
	groups := []*typesv1.RowGroup{
		{Range: &typesv1.OffsetRange{Start: 4, End: 8}, Rows: 3, SizeBytes: 100, TailBytes: 8, Crc: 77},
		{Range: &typesv1.OffsetRange{Start: 8, End: 9}},
	}
	rowGroups, err := RowGroupsBytes(groups)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := MarshalEntries(&dedupv1.GetManifestGroupResponse{Entries: []*dedupv1.ManifestEntry{{Partition: 3, DataKey: "k"}}})
	if err != nil {
		t.Fatal(err)
	}
	snap := &Snapshot{
		ID: 9, ParentID: 0, TimeMs: 5, SchemaID: 1, Cut: []kafkapos.Range{{Start: 1, End: 2}, {}},
		Groups: []ManifestGroup{{Partition: 1, Open: true, Name: "n", Inputs: [16]byte{3}, AddedSnapshotID: 4, DataFiles: 1, Rows: 2, DeleteFiles: 3, DeletedRows: 4}, {Number: 7}},
	}
	head := &Head{LeaderEpoch: -1, Frontier: 5, End: 9, Start: 2, Floor: 1, LogStart: 2, Tail: Tail{From: -1, Sum: [16]byte{5}}, Directory: "1-x"}
	root := &Root{
		Pages: []PageRef{{Number: 0, Blob: "a"}, {Number: 5, Blob: "b"}}, Runs: []RunRef{{Name: "r", Range: kafkapos.Range{Start: 0, End: 9}, Entries: 3}},
		Recent: []SegmentRef{{Blob: "s", Marks: 4}},
	}
	info := &EpochInfo{Topic: sampleRecord().Topic, Table: "t", Replaced: "because"}
	return map[string]format{
		"record":   {sampleRecord().Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParseRecord(b)) }},
		"epoch":    {info.Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParseEpoch(b)) }},
		"head":     {head.Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParseHead(b)) }},
		"root":     {root.Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParseRoot(b)) }},
		"page":     {samplePage(t).Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParsePage(b)) }},
		"snapshot": {snap.Bytes(), func(b []byte) ([]byte, error) { return bytesOf(ParseSnapshot(b)) }},
		"row groups": {rowGroups, func(b []byte) ([]byte, error) {
			g, err := ParseRowGroups(b)
			if err != nil {
				return nil, err
			}
			return RowGroupsBytes(g)
		}},
		"manifest group": {ManifestGroupBytes(3, entries), func(b []byte) ([]byte, error) {
			v, g, err := ParseManifestGroup(b)
			if err != nil {
				return nil, err
			}
			raw, err := MarshalEntries(g)
			return ManifestGroupBytes(v, raw), err
		}},
	}
}

func bytesOf[V interface{ Bytes() []byte }](v V, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return v.Bytes(), nil
}

func TestFormatsComeBack(t *testing.T) {
	for name, f := range formats(t) {
		if again, err := f.again(f.sample); err != nil || !bytes.Equal(again, f.sample) {
			t.Errorf("%s: %x came back as %x, %v", name, f.sample, again, err)
		}
	}
	if got, err := ParseRecord(sampleRecord().Bytes()); err != nil || !reflect.DeepEqual(got, sampleRecord()) {
		t.Errorf("record %+v, %v", got, err)
	}
	page := samplePage(t)
	if got, err := ParsePage(page.Bytes()); err != nil || !reflect.DeepEqual(got.Chunks[1].Ledgers, page.Chunks[1].Ledgers) || !reflect.DeepEqual(got.Find(1).Layouts, page.Find(1).Layouts) {
		t.Errorf("page %+v, %v", got, err)
	}
}

func TestDamageIsCorrupt(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for name, f := range formats(t) {
		for range 200 {
			b := bytes.Clone(f.sample)
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			if _, err := f.again(b); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%s: damaged, %v", name, err)
			}
			if _, err := f.again(f.sample[:r.IntN(len(f.sample))]); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("%s: cut off, %v", name, err)
			}
		}
	}
}

// FuzzFormats feeds bodies under a right checksum: whatever parses is written as it was read.
func FuzzFormats(f *testing.F) {
	names := []string{"record", "epoch", "head", "root", "page", "snapshot", "row groups", "manifest group"}
	all := formats(f)
	for i, name := range names {
		f.Add(byte(i), all[name].sample[5:len(all[name].sample)-4])
	}
	f.Fuzz(func(t *testing.T, i byte, body []byte) {
		form := all[names[int(i)%len(names)]]
		w := &writer{b: append(bytes.Clone(form.sample[:5]), body...)}
		sealed := w.seal()
		again, err := form.again(sealed)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("error %v is not corrupt", err)
			}
			return
		}
		third, err := form.again(again)
		if err != nil || !bytes.Equal(third, again) {
			t.Fatalf("%x, then %x, %v", again, third, err)
		}
	})
}

func TestNames(t *testing.T) {
	if v, ok := Planned(PageKind, Suffix(77, []byte("x"))); !ok || v != 77 {
		t.Errorf("planned %d, %v", v, ok)
	}
	if v, ok := Planned(RowGroupKind, RowGroupsSuffix(4096, 12, []byte("x"))); !ok || v != 12 {
		t.Errorf("planned %d, %v", v, ok)
	}
	if _, ok := Planned(PageKind, "x"); ok {
		t.Error("a name without a version has one")
	}
	a := GroupName(1, []byte("entries"))
	if len(a) != GroupNameLen || a == GroupName(2, []byte("entries")) || a == GroupName(1, []byte("other")) || a != GroupName(1, []byte("entries")) {
		t.Errorf("group name %s", a)
	}
	cut := []kafkapos.Range{{Start: 0, End: 5}}
	id := SnapshotID(kafkapos.TopicID{}, "e", "current", cut, nil)
	if id <= 0 || id == SnapshotID(kafkapos.TopicID{}, "e", "current", []kafkapos.Range{{Start: 1, End: 5}}, nil) {
		t.Errorf("snapshot id %d", id)
	}
}

func TestPageWith(t *testing.T) {
	p := &Page{}
	for _, n := range []int64{5, 3, 9, 3} {
		p = p.With(&Chunk{Number: n, Rows: n})
	}
	if len(p.Chunks) != 3 || p.Chunks[0].Number != 3 || p.Find(9) == nil || p.Find(4) != nil {
		t.Fatalf("page %v", p.Chunks)
	}
}

func TestRowGroupsAreMessages(t *testing.T) {
	want := &typesv1.RowGroup{Range: &typesv1.OffsetRange{Start: 1, End: 2}, Columns: []*typesv1.ColumnBounds{{FieldId: 4, Lower: []byte{}, ValueCount: 2}}}
	b, err := RowGroupsBytes([]*typesv1.RowGroup{want})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseRowGroups(b)
	if err != nil || len(got) != 1 || !proto.Equal(got[0], want) || got[0].GetColumns()[0].Lower == nil {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestFormatsAreFrozen: what version 1 writes never changes. A new form is a new version.
func TestFormatsAreFrozen(t *testing.T) {
	want := map[string]string{
		"epoch":          "853a89b5a6bbca8f",
		"head":           "188697992eb15de9",
		"manifest group": "eb0be47eb40f8baa",
		"page":           "1fa2670c9df2450d",
		"record":         "7fe5759b1f7a136d",
		"root":           "d37ae710bfb28a7b",
		"row groups":     "e1cd11e944fff36e",
		"snapshot":       "2f882c22a14bfec7",
	}
	for name, f := range formats(t) {
		sum := sha256.Sum256(f.sample)
		if got := hex.EncodeToString(sum[:8]); got != want[name] {
			t.Errorf("%q: %q,", name, got)
		}
	}
}
