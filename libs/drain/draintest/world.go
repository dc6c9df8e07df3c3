package draintest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// TB is what is needed of testing.TB.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Specs of every table here: unpartitioned, by part, by part and bucket of id.
func Specs() []iceberg.PartitionSpec {
	part := iceberg.PartitionField{SourceIDs: []int{Part}, FieldID: 1000, Name: "part", Transform: iceberg.IdentityTransform{}}
	bucket := iceberg.PartitionField{SourceIDs: []int{ID}, FieldID: 1001, Name: "id_bucket", Transform: iceberg.BucketTransform{NumBuckets: 2}}
	return []iceberg.PartitionSpec{
		iceberg.NewPartitionSpecID(0), iceberg.NewPartitionSpecID(1, part), iceberg.NewPartitionSpecID(2, part, bucket),
	}
}

// File is a data or delete file to add.
type File struct {
	Content   iceberg.ManifestEntryContent
	Path      string
	Format    iceberg.FileFormat
	Spec      int
	Partition map[int]any
	// Seq is the data sequence number; 0 = that of the commit.
	Seq     int64
	Records int64
	Size    int64
	Keys    []int // of an equality delete
	// Reference of a position delete or vector, Offset and Bytes of a vector.
	Reference     string
	Offset, Bytes int64
	Lower, Upper  map[int][]byte
	Values, Nulls map[int]int64
}

// World is a table and its catalog. Commits are serial; Load and Commit may be called concurrently.
type World struct {
	tb      TB
	Lake    *Lake
	Version int
	Era     int

	location string

	mu   sync.Mutex
	meta []byte
	at   string
	n    int
	// Rows and Keys are what data files and equality deletes hold, by path.
	Rows map[string][]Row
	// Before, if not nil, is called before every commit of the catalog, as another writer's chance.
	Before func()
	// Answer, if not nil, changes what a commit that has happened or not is answered with.
	Answer func(err error) error
	// Commits counts what the catalog applied.
	Commits int
}

// New makes a table without snapshots.
func New(tb TB, version int) *World { return NewAt(tb, version, "s3://lake/db/t") }

// NewAt is New at a location.
func NewAt(tb TB, version int, location string) *World {
	tb.Helper()
	w := &World{tb: tb, Lake: NewLake(), Version: version, location: location, Rows: map[string][]Row{}}
	w.save(map[string]any{
		"format-version": version, "table-uuid": "6a9d7cd0-4f5b-4d0a-9b3e-4a5b5c8e2c01", "location": location,
		"last-sequence-number": 0, "last-updated-ms": 1_700_000_000_000, "last-column-id": Extra,
		"schemas": []any{Schema(0, version)}, "current-schema-id": 0, "partition-specs": Specs(), "default-spec-id": 0,
		"last-partition-id": 1001, "sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}}, "default-sort-order-id": 0,
		"properties": map[string]string{}, "snapshots": []any{}, "snapshot-log": []any{}, "metadata-log": []any{}, "refs": map[string]any{},
		"x-unknown": map[string]any{"kept": true},
	})
	if version >= 3 {
		w.edit(func(m map[string]any) { m["next-row-id"] = 0 })
	}
	return w
}

func (w *World) save(m map[string]any) {
	text, err := json.Marshal(m)
	if err != nil {
		w.tb.Fatal(err)
	}
	w.n++
	w.meta, w.at = text, fmt.Sprintf("%s/metadata/%05d-a.metadata.json", w.location, w.n)
	w.Lake.Put(w.at, text)
}

// edit changes the metadata.
func (w *World) edit(change func(map[string]any)) {
	d := json.NewDecoder(bytes.NewReader(w.meta))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		w.tb.Fatal(err)
	}
	change(m)
	w.save(m)
}

// object and list answer what is under a key of a JSON object; nil if it is something else.
func object(m map[string]any, key string) map[string]any {
	o, _ := m[key].(map[string]any)
	return o
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

// Metadata answers the metadata JSON of now and its location.
func (w *World) Metadata() ([]byte, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.meta, w.at
}

// SetProperty sets a table property.
func (w *World) SetProperty(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.edit(func(m map[string]any) { object(m, "properties")[key] = value })
}

// NextEra evolves the schema: promoted types, a renamed, a dropped and an added column.
func (w *World) NextEra() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Era = 1
	w.edit(func(m map[string]any) {
		m["schemas"], m["current-schema-id"] = append(list(m, "schemas"), Schema(1, w.Version)), 1
	})
}

// Upgrade makes format version 3 of 2.
func (w *World) Upgrade() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Version = 3
	w.edit(func(m map[string]any) { m["format-version"], m["next-row-id"] = 3, 0 })
}

// Branch makes or moves a branch to the head of another.
func (w *World) Branch(name, of string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.edit(func(m map[string]any) {
		refs := object(m, "refs")
		refs[name] = maps.Clone(object(refs, of))
	})
}

// Table answers what the metadata says now.
func (w *World) Table() *icebergscan.Table {
	text, _ := w.Metadata()
	t, err := icebergscan.ParseTable(text)
	if err != nil {
		w.tb.Fatal(err)
	}
	return t
}

// Load implements drain.Catalog.
func (w *World) Load(context.Context) (*drain.Table, error) {
	text, at := w.Metadata()
	t, err := icebergscan.ParseTable(text)
	if err != nil {
		return nil, err
	}
	return &drain.Table{Base: icebergcommit.Base{Raw: text, Meta: t}, Store: w.Lake, Origin: at}, nil
}

// Commit implements drain.Catalog: compare-and-set of the metadata location.
func (w *World) Commit(_ context.Context, t *drain.Table, c *icebergcommit.Commit) error {
	if w.Before != nil {
		w.Before()
	}
	err := w.apply(t, c)
	if w.Answer != nil {
		return w.Answer(err)
	}
	return err
}

func (w *World) apply(t *drain.Table, c *icebergcommit.Commit) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.Origin != w.at {
		return fmt.Errorf("the table has another version: %w", fault.ErrConflict)
	}
	text, err := c.Apply(w.meta, w.at)
	if err != nil {
		return err
	}
	w.n++
	w.Commits++
	w.meta, w.at = text, fmt.Sprintf("%s/metadata/%05d-b.metadata.json", w.location, w.n)
	w.Lake.Put(w.at, text)
	return nil
}

// Write commits as another writer does: files are added, and those of the removed paths go.
func (w *World) Write(branch, operation string, add []File, remove ...string) {
	w.tb.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	t, err := icebergscan.ParseTable(w.meta)
	if err != nil {
		w.tb.Fatal(err)
	}
	seq, id := t.LastSequenceNumber+1, int64(1000+w.n)
	c := &commit{w: w, t: t, id: id, seq: seq, remove: remove}
	var parent *int64
	snapshot := map[string]any{"snapshot-id": id, "sequence-number": seq, "timestamp-ms": t.LastUpdatedMs + 1000, "schema-id": t.CurrentSchemaID,
		"summary": map[string]string{"operation": operation}}
	if s, err := t.Head(branch); err == nil && s != nil {
		parent, snapshot["parent-snapshot-id"] = &s.ID, s.ID
		lines, err := iceberg.ReadManifestList(bytes.NewReader(w.Lake.Get(s.ManifestList)))
		if err != nil {
			w.tb.Fatal(err)
		}
		for _, m := range lines {
			c.carry(m)
		}
	}
	c.add(add)
	at := fmt.Sprintf("%s/metadata/snap-%d.avro", w.location, id)
	snapshot["manifest-list"] = at
	var buf bytes.Buffer
	if err := iceberg.WriteManifestList(w.Version, &buf, id, parent, &seq, t.NextRowID, c.out); err != nil {
		w.tb.Fatal(err)
	}
	w.Lake.Put(at, buf.Bytes())
	w.edit(func(m map[string]any) {
		if w.Version >= 3 {
			lines, err := iceberg.ReadManifestList(bytes.NewReader(buf.Bytes()))
			if err != nil {
				w.tb.Fatal(err)
			}
			next := t.NextRowID
			for _, f := range lines {
				if r := f.FirstRowID(); r != nil {
					next = max(next, *r+f.AddedRows()+f.ExistingRows())
				}
			}
			snapshot["first-row-id"], snapshot["added-rows"], m["next-row-id"] = t.NextRowID, next-t.NextRowID, next
		}
		m["snapshots"] = append(list(m, "snapshots"), snapshot)
		m["last-sequence-number"], m["last-updated-ms"] = seq, t.LastUpdatedMs+1000
		object(m, "refs")[branch] = map[string]any{"snapshot-id": id, "type": "branch"}
		if branch == icebergscan.MainBranch {
			m["current-snapshot-id"] = id
		}
	})
}

type commit struct {
	w       *World
	t       *icebergscan.Table
	id, seq int64
	n       int
	remove  []string
	out     []iceberg.ManifestFile
}

// carry takes a manifest over, without the removed files.
func (c *commit) carry(m iceberg.ManifestFile) {
	entries, err := iceberg.ReadManifest(m, bytes.NewReader(c.w.Lake.Get(m.FilePath())), false)
	if err != nil {
		c.w.tb.Fatal(err)
	}
	gone := func(e iceberg.ManifestEntry) bool {
		f := e.DataFile()
		name := f.FilePath()
		if f.FileFormat() == iceberg.PuffinFile { // it may hold the vectors of several data files
			name = fmt.Sprintf("%s#%d", name, *f.ContentOffset())
		}
		return e.Status() != iceberg.EntryStatusDELETED && slices.Contains(c.remove, name)
	}
	if !slices.ContainsFunc(entries, gone) {
		c.out = append(c.out, m)
		return
	}
	c.manifest(int(m.PartitionSpecID()), m.ManifestContent(), func(w *iceberg.ManifestWriter) error {
		for _, e := range entries {
			if e.Status() == iceberg.EntryStatusDELETED {
				continue
			}
			seq, from := e.SequenceNum(), e.SnapshotID()
			if gone(e) {
				if err := w.Delete(iceberg.NewManifestEntry(iceberg.EntryStatusDELETED, &c.id, &seq, e.FileSequenceNum(), e.DataFile())); err != nil {
					return err
				}
				continue
			}
			if err := w.Existing(iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &from, &seq, e.FileSequenceNum(), e.DataFile())); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *commit) manifest(spec int, content iceberg.ManifestContent, fill func(*iceberg.ManifestWriter) error) {
	tb := c.w.tb
	var buf bytes.Buffer
	w, err := iceberg.NewManifestWriter(c.w.Version, &buf, Specs()[spec], Schema(c.w.Era, c.w.Version), c.id, iceberg.WithManifestWriterContent(content))
	if err != nil {
		tb.Fatal(err)
	}
	if err := fill(w); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	at := fmt.Sprintf("%s/metadata/%d-m%d.avro", c.w.location, c.id, c.n)
	c.n++
	m, err := w.ToManifestFile(at, int64(buf.Len()))
	if err != nil {
		tb.Fatal(err)
	}
	c.w.Lake.Put(at, buf.Bytes())
	c.out = append(c.out, m)
}

func (c *commit) add(files []File) {
	for _, content := range []iceberg.ManifestContent{iceberg.ManifestContentData, iceberg.ManifestContentDeletes} {
		for spec := range Specs() {
			var these []File
			for _, f := range files {
				if f.Spec == spec && (f.Content == iceberg.EntryContentData) == (content == iceberg.ManifestContentData) {
					these = append(these, f)
				}
			}
			if len(these) == 0 {
				continue
			}
			c.manifest(spec, content, func(w *iceberg.ManifestWriter) error {
				for _, f := range these {
					var seq *int64
					if f.Seq != 0 {
						seq = &f.Seq
					}
					if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &c.id, seq, nil, c.dataFile(f))); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

func (c *commit) dataFile(f File) iceberg.DataFile {
	b, err := iceberg.NewDataFileBuilder(Specs()[f.Spec], f.Content, f.Path, f.Format, f.Partition, nil, nil, f.Records, f.Size)
	if err != nil {
		c.w.tb.Fatal(err)
	}
	if f.Keys != nil {
		b.EqualityFieldIDs(f.Keys)
	}
	if f.Lower != nil {
		b.LowerBoundValues(f.Lower).UpperBoundValues(f.Upper)
	}
	if f.Values != nil {
		b.ValueCounts(f.Values).NullValueCounts(f.Nulls)
	}
	if f.Reference != "" {
		b.ReferencedDataFile(f.Reference)
	}
	if f.Bytes != 0 {
		b.ContentOffset(f.Offset).ContentSizeInBytes(f.Bytes)
	}
	return b.Build()
}
