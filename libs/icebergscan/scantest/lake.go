// Package scantest makes tables for tests: metadata, manifest lists and manifests written by apache/iceberg-go, so
// that what the tools read was not encoded by themselves. It makes no data files.
package scantest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/fault"
)

// Lake is an object store in memory. Safe for concurrent use once it is filled.
type Lake struct {
	mu      sync.Mutex
	Objects map[string][]byte // by full location
	opened  []string
}

// Open implements icebergscan.Opener.
func (l *Lake) Open(_ context.Context, location string) (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = append(l.opened, location)
	b, ok := l.Objects[location]
	if !ok {
		return nil, fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// Opened answers what was opened so far, in order.
func (l *Lake) Opened() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.opened)
}

// File is a data or delete file as a commit adds it.
type File struct {
	Content   iceberg.ManifestEntryContent
	Path      string
	Format    iceberg.FileFormat // "" = PARQUET
	Spec      int
	Partition map[int]any // by field id
	Records   int64
	Size      int64 // 0 = 1000
	// Seq is the data sequence number; 0 = that of the commit.
	Seq          int64
	EqualityIDs  []int
	Lower, Upper map[int][]byte
	Values       map[int]int64
	Nulls        map[int]int64
	// Reference is the referenced data file; "" = none.
	Reference     string
	Offset, Bytes int64 // of a deletion vector; Bytes 0 = not stated
}

// Table is a table under construction.
type Table struct {
	Lake       *Lake
	Version    int
	Location   string
	Schemas    []*iceberg.Schema // the last one is current
	Specs      []iceberg.PartitionSpec
	Properties map[string]string
	Refs       map[string]int64 // beside main

	tb        testing.TB
	manifests []iceberg.ManifestFile
	contents  map[string][]placed // by manifest path
	snapshots []map[string]any
	seq       int64
	rowID     int64
	n         int
}

type placed struct {
	file     File
	seq      int64
	snapshot int64
}

// New starts a table without snapshots. The specs must have their place as id.
func New(tb testing.TB, version int, schema *iceberg.Schema, specs ...iceberg.PartitionSpec) *Table {
	tb.Helper()
	return &Table{
		Lake: &Lake{Objects: map[string][]byte{}}, Version: version, Location: "s3://lake/db/t",
		Schemas: []*iceberg.Schema{schema}, Specs: specs, Properties: map[string]string{}, Refs: map[string]int64{},
		tb: tb, contents: map[string][]placed{},
	}
}

// Commit adds a snapshot: the files are added in new manifests, the files of the removed paths leave theirs. Totals
// in the summary are right unless extra overrides them. It answers the snapshot's id.
func (t *Table) Commit(operation string, extra map[string]string, files []File, removed ...string) int64 {
	t.tb.Helper()
	t.seq++
	id := 1000 + t.seq
	var next []iceberg.ManifestFile
	for _, m := range t.manifests {
		if slices.ContainsFunc(t.contents[m.FilePath()], func(p placed) bool { return slices.Contains(removed, p.file.Path) }) {
			next = append(next, t.rewrite(m, id, removed)...)
			continue
		}
		next = append(next, m)
	}
	next = append(next, t.add(id, files)...)

	list := fmt.Sprintf("%s/metadata/snap-%d.avro", t.Location, id)
	var parent *int64
	snapshot := map[string]any{
		"snapshot-id": id, "sequence-number": t.seq, "timestamp-ms": 1_700_000_000_000 + 60_000*t.seq,
		"manifest-list": list, "schema-id": t.Schemas[len(t.Schemas)-1].ID,
	}
	if len(t.snapshots) > 0 {
		p, _ := t.snapshots[len(t.snapshots)-1]["snapshot-id"].(int64)
		parent = &p
		snapshot["parent-snapshot-id"] = p
	}
	var buf bytes.Buffer
	if err := iceberg.WriteManifestList(t.Version, &buf, id, parent, &t.seq, t.rowID, next); err != nil {
		t.tb.Fatal(err)
	}
	t.Lake.Objects[list] = buf.Bytes()
	read, err := iceberg.ReadManifestList(bytes.NewReader(buf.Bytes()))
	if err != nil {
		t.tb.Fatal(err)
	}
	t.manifests = read
	summary := t.totals()
	summary["operation"] = operation
	maps.Copy(summary, extra)
	snapshot["summary"] = summary
	if t.Version == 3 {
		snapshot["first-row-id"], snapshot["added-rows"] = t.rowID, 0
		for _, f := range files {
			if f.Content == iceberg.EntryContentData {
				t.rowID += f.Records
			}
		}
	}
	t.snapshots = append(t.snapshots, snapshot)
	return id
}

func (t *Table) add(id int64, files []File) []iceberg.ManifestFile {
	type kind struct {
		spec    int
		content iceberg.ManifestContent
	}
	byKind := map[kind][]File{}
	var order []kind
	for _, f := range files {
		k := kind{f.Spec, iceberg.ManifestContentData}
		if f.Content != iceberg.EntryContentData {
			k.content = iceberg.ManifestContentDeletes
		}
		if byKind[k] == nil {
			order = append(order, k)
		}
		byKind[k] = append(byKind[k], f)
	}
	var out []iceberg.ManifestFile
	for _, k := range order {
		var now []placed
		out = append(out, t.write(k.spec, k.content, id, func(w *iceberg.ManifestWriter) {
			for _, f := range byKind[k] {
				var seq *int64
				if f.Seq != 0 {
					seq = &f.Seq
				}
				if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, seq, nil, t.dataFile(f))); err != nil {
					t.tb.Fatal(err)
				}
				now = append(now, placed{file: f, seq: max(f.Seq, 0), snapshot: id})
			}
		}, &now))
	}
	return out
}

// rewrite marks the removed files of a manifest and keeps the others as existing.
func (t *Table) rewrite(m iceberg.ManifestFile, id int64, removed []string) []iceberg.ManifestFile {
	var now []placed
	return []iceberg.ManifestFile{t.write(int(m.PartitionSpecID()), m.ManifestContent(), id, func(w *iceberg.ManifestWriter) {
		for _, p := range t.contents[m.FilePath()] {
			seq, added := p.seq, p.snapshot
			entry := func(s iceberg.ManifestEntryStatus) iceberg.ManifestEntry {
				return iceberg.NewManifestEntry(s, &added, &seq, &seq, t.dataFile(p.file))
			}
			var err error
			if slices.Contains(removed, p.file.Path) {
				err = w.Delete(entry(iceberg.EntryStatusDELETED))
			} else {
				err = w.Existing(entry(iceberg.EntryStatusEXISTING))
				now = append(now, p)
			}
			if err != nil {
				t.tb.Fatal(err)
			}
		}
	}, &now)}
}

func (t *Table) write(spec int, content iceberg.ManifestContent, id int64, fill func(*iceberg.ManifestWriter), now *[]placed) iceberg.ManifestFile {
	t.n++
	path := fmt.Sprintf("%s/metadata/%04d-m%d.avro", t.Location, t.n, content)
	var buf bytes.Buffer
	w, err := iceberg.NewManifestWriter(t.Version, &buf, t.Specs[spec], t.Schemas[len(t.Schemas)-1], id, iceberg.WithManifestWriterContent(content))
	if err != nil {
		t.tb.Fatal(err)
	}
	fill(w)
	if err := w.Close(); err != nil {
		t.tb.Fatal(err)
	}
	m, err := w.ToManifestFile(path, int64(buf.Len()))
	if err != nil {
		t.tb.Fatal(err)
	}
	t.Lake.Objects[path] = buf.Bytes()
	for i := range *now {
		if (*now)[i].seq == 0 {
			(*now)[i].seq = t.seq
		}
	}
	t.contents[path] = *now
	return m
}

func (t *Table) dataFile(f File) iceberg.DataFile {
	if f.Format == "" {
		f.Format = iceberg.ParquetFile
	}
	if f.Size == 0 {
		f.Size = 1000
	}
	b, err := iceberg.NewDataFileBuilder(t.Specs[f.Spec], f.Content, f.Path, f.Format, f.Partition, nil, nil, f.Records, f.Size)
	if err != nil {
		t.tb.Fatal(err)
	}
	if f.EqualityIDs != nil {
		b.EqualityFieldIDs(f.EqualityIDs)
	}
	if f.Lower != nil {
		b.LowerBoundValues(f.Lower)
	}
	if f.Upper != nil {
		b.UpperBoundValues(f.Upper)
	}
	if f.Values != nil {
		b.ValueCounts(f.Values)
	}
	if f.Nulls != nil {
		b.NullValueCounts(f.Nulls)
	}
	if f.Reference != "" {
		b.ReferencedDataFile(f.Reference)
	}
	if f.Bytes != 0 {
		b.ContentOffset(f.Offset).ContentSizeInBytes(f.Bytes)
	}
	return b.Build()
}

// Live answers the files of the newest snapshot with their data sequence numbers set.
func (t *Table) Live() []File {
	var out []File
	for _, m := range t.manifests {
		for _, p := range t.contents[m.FilePath()] {
			f := p.file
			f.Seq = p.seq
			out = append(out, f)
		}
	}
	return out
}

func (t *Table) totals() map[string]string {
	var dataFiles, records, deleteFiles, positions, keys, size int64
	for _, f := range t.Live() {
		if f.Size == 0 {
			f.Size = 1000
		}
		size += f.Size
		switch f.Content {
		case iceberg.EntryContentData:
			dataFiles++
			records += f.Records
		case iceberg.EntryContentPosDeletes:
			deleteFiles++
			positions += f.Records
		case iceberg.EntryContentEqDeletes:
			deleteFiles++
			keys += f.Records
		}
	}
	text := func(n int64) string { return fmt.Sprint(n) }
	return map[string]string{
		"total-data-files": text(dataFiles), "total-records": text(records), "total-delete-files": text(deleteFiles),
		"total-position-deletes": text(positions), "total-equality-deletes": text(keys), "total-files-size": text(size),
	}
}

// Metadata answers the table metadata JSON of now, and puts it into the lake under its location.
func (t *Table) Metadata() []byte {
	t.tb.Helper()
	schemas := make([]json.RawMessage, 0, len(t.Schemas))
	lastColumn := 0
	for _, s := range t.Schemas {
		text, err := json.Marshal(s)
		if err != nil {
			t.tb.Fatal(err)
		}
		schemas = append(schemas, text)
		lastColumn = max(lastColumn, s.HighestFieldID())
	}
	lastPartition := 999
	for _, s := range t.Specs {
		lastPartition = max(lastPartition, s.LastAssignedFieldID())
	}
	m := map[string]any{
		"format-version": t.Version, "table-uuid": "6a9d7cd0-4f5b-4d0a-9b3e-4a5b5c8e2c01", "location": t.Location,
		"last-sequence-number": t.seq, "last-updated-ms": 1_700_000_000_000 + 60_000*t.seq, "last-column-id": lastColumn,
		"schemas": schemas, "current-schema-id": t.Schemas[len(t.Schemas)-1].ID,
		"partition-specs": t.Specs, "default-spec-id": t.Specs[len(t.Specs)-1].ID(), "last-partition-id": lastPartition,
		"sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}}, "default-sort-order-id": 0,
		"properties": t.Properties, "snapshots": t.snapshots, "snapshot-log": []any{}, "metadata-log": []any{},
	}
	if t.Version == 3 {
		m["next-row-id"] = t.rowID
	}
	if len(t.snapshots) > 0 {
		head := t.snapshots[len(t.snapshots)-1]["snapshot-id"]
		m["current-snapshot-id"] = head
		refs := map[string]any{"main": map[string]any{"snapshot-id": head, "type": "branch"}}
		for name, id := range t.Refs {
			refs[name] = map[string]any{"snapshot-id": id, "type": "branch"}
		}
		m["refs"] = refs
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.tb.Fatal(err)
	}
	t.Lake.Objects[t.MetadataLocation()] = text
	return text
}

// MetadataLocation answers where Metadata puts the metadata.
func (t *Table) MetadataLocation() string {
	return fmt.Sprintf("%s/metadata/%05d-6a9d7cd0-4f5b-4d0a-9b3e-4a5b5c8e2c01.metadata.json", t.Location, t.seq)
}

// Name answers the last part of a location.
func Name(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

// WriteFiles puts all objects of the lake, whose location must begin with file://, onto the disk.
func (l *Lake) WriteFiles(tb testing.TB) {
	tb.Helper()
	for location, body := range l.Objects {
		path, ok := strings.CutPrefix(location, "file://")
		if !ok {
			tb.Fatalf("%s is no file", location)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}
