package iceberg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/frazil-io/frazil/libs/avrofile"
	"github.com/frazil-io/frazil/libs/fault"
)

// Content says what the files of a manifest hold. The values are those of the spec.
type Content int

// The contents.
const (
	Data            Content = 0
	PositionDeletes Content = 1 // position delete files and deletion vectors
)

// File formats as manifests name them.
const (
	Parquet = "PARQUET"
	Puffin  = "PUFFIN"
)

// Entry statuses (Iceberg spec, "Manifest Entry Fields"). Deleted entries are never written.
const (
	statusExisting = 0
	statusAdded    = 1
)

// Column is what is known of one column of a data file.
type Column struct {
	FieldID int32
	// Lower and Upper are inclusive limits in Iceberg's single-value serialisation; nil = none.
	Lower, Upper []byte
	// Values counts all values, nulls included; Nulls the nulls among them.
	Values, Nulls int64
}

// File is a data file or a delete file as a manifest describes it.
type File struct {
	// Path is the full location, s3://bucket/key. Delete files match data files by exactly this string.
	Path   string
	Format string
	// Rows is the exact number of rows, or of deleted positions. Never 0.
	Rows int64
	// Size is the exact length of the object in bytes: readers take it instead of asking.
	Size         int64
	Columns      []Column
	SplitOffsets []int64
	// FirstRowID is the row id of position 0; format version 3, data files only.
	FirstRowID int64
	// ReferencedDataFile is the path of the data file; delete files only.
	ReferencedDataFile string
	// ContentOffset and ContentSize locate the deletion vector in its Puffin file, bytes; Puffin only.
	ContentOffset, ContentSize int64
}

// Entry is a file and the snapshot that first had it.
type Entry struct {
	SnapshotID int64
	File       File
}

// Manifest is a list of files of one content.
type Manifest struct {
	FormatVersion int
	Content       Content
	// SnapshotID is the snapshot that added the manifest.
	SnapshotID int64
	SchemaID   int32
	SchemaJSON []byte
	Entries    []Entry
}

// ManifestFile is what a manifest list says about a manifest.
type ManifestFile struct {
	Path          string
	Length        int64 // bytes
	Content       Content
	SnapshotID    int64
	AddedFiles    int64
	ExistingFiles int64
	AddedRows     int64
	ExistingRows  int64
	// FirstRowID is the lowest of the entries' ids; format version 3, data manifests only.
	FirstRowID int64
}

// RenderManifest makes the bytes of a manifest and its line of a manifest list, without the path. Errors:
// fault.ErrCorrupt for entries that a reader would misread.
func RenderManifest(m Manifest) ([]byte, ManifestFile, error) {
	mf := ManifestFile{Content: m.Content, SnapshotID: m.SnapshotID}
	if err := checkFormat(m.FormatVersion); err != nil {
		return nil, mf, err
	}
	if !json.Valid(m.SchemaJSON) {
		return nil, mf, fmt.Errorf("render manifest: %w: its schema is no JSON", fault.ErrCorrupt)
	}
	content := "data"
	if m.Content == PositionDeletes {
		content = "deletes"
	}
	o := avrofile.New(ManifestSchema(m.FormatVersion, avroRecord("r102")),
		avrofile.Property{"schema", string(m.SchemaJSON)},
		avrofile.Property{"schema-id", strconv.Itoa(int(m.SchemaID))},
		avrofile.Property{"partition-spec", "[]"},
		avrofile.Property{"partition-spec-id", strconv.Itoa(specID)},
		avrofile.Property{"format-version", strconv.Itoa(m.FormatVersion)},
		avrofile.Property{"content", content})
	for i := range m.Entries {
		e := &m.Entries[i]
		if err := m.check(&e.File); err != nil {
			return nil, mf, fmt.Errorf("render manifest entry %s: %w", e.File.Path, err)
		}
		mf.count(e, m.SnapshotID, i == 0)
		o.Append(func(b []byte) []byte { return m.appendEntry(b, e) })
	}
	data, err := o.Bytes()
	if err != nil {
		return nil, mf, err
	}
	mf.Length = int64(len(data))
	return data, mf, nil
}

func (mf *ManifestFile) count(e *Entry, snapshotID int64, first bool) {
	if e.SnapshotID == snapshotID {
		mf.AddedFiles++
		mf.AddedRows += e.File.Rows
	} else {
		mf.ExistingFiles++
		mf.ExistingRows += e.File.Rows
	}
	if first || e.File.FirstRowID < mf.FirstRowID {
		mf.FirstRowID = e.File.FirstRowID
	}
}

// check refuses what readers would silently misread: a file without rows or size is skipped, and a column whose
// nulls equal its values is pruned as all null.
func (m *Manifest) check(f *File) error {
	if f.Rows <= 0 || f.Size <= 0 {
		return fmt.Errorf("%w: %d rows, %d bytes", fault.ErrCorrupt, f.Rows, f.Size)
	}
	if m.Content == PositionDeletes {
		return m.checkDeletes(f)
	}
	if f.Format != Parquet || f.ReferencedDataFile != "" {
		return fmt.Errorf("%w: not a data file", fault.ErrCorrupt)
	}
	for _, c := range f.Columns {
		bounded := c.Lower != nil || c.Upper != nil
		if c.Nulls < 0 || c.Nulls > c.Values || bounded && c.Nulls == c.Values {
			return fmt.Errorf("%w: column %d has %d nulls of %d values", fault.ErrCorrupt, c.FieldID, c.Nulls, c.Values)
		}
	}
	return nil
}

func (m *Manifest) checkDeletes(f *File) error {
	want := Parquet
	if m.FormatVersion >= V3 {
		want = Puffin
	}
	if f.Format != want || f.ReferencedDataFile == "" {
		return fmt.Errorf("%w: not a delete file of format version %d", fault.ErrCorrupt, m.FormatVersion)
	}
	if f.Format == Puffin && (f.ContentOffset <= 0 || f.ContentSize <= 0) {
		return fmt.Errorf("%w: a deletion vector without a place", fault.ErrCorrupt)
	}
	return nil
}

func (m *Manifest) appendEntry(b []byte, e *Entry) []byte {
	status := int64(statusExisting)
	if e.SnapshotID == m.SnapshotID {
		status = statusAdded
	}
	b = avrofile.AppendLong(b, status)
	b = avrofile.AppendLong(avrofile.AppendSome(b), e.SnapshotID)
	b = avrofile.AppendLong(avrofile.AppendSome(b), sequenceNumber)
	b = avrofile.AppendLong(avrofile.AppendSome(b), sequenceNumber)
	f := &e.File
	b = avrofile.AppendLong(b, int64(m.Content))
	b = avrofile.AppendString(b, f.Path)
	b = avrofile.AppendString(b, f.Format)
	b = avrofile.AppendLong(b, f.Rows)
	b = avrofile.AppendLong(b, f.Size)
	b = avrofile.AppendNull(b) // column_sizes
	b = m.appendColumns(b, f)
	b = avrofile.AppendNull(b) // key_metadata
	b = appendOffsets(b, f.SplitOffsets)
	b = avrofile.AppendNull(b) // equality_ids
	b = avrofile.AppendNull(b) // sort_order_id: absent, since position deletes must not state one
	if m.FormatVersion >= V3 {
		if m.Content == Data {
			b = avrofile.AppendLong(avrofile.AppendSome(b), f.FirstRowID)
		} else {
			b = avrofile.AppendNull(b)
		}
	}
	if f.ReferencedDataFile != "" {
		b = avrofile.AppendString(avrofile.AppendSome(b), f.ReferencedDataFile)
	} else {
		b = avrofile.AppendNull(b)
	}
	if m.FormatVersion >= V3 {
		if f.Format == Puffin {
			b = avrofile.AppendLong(avrofile.AppendSome(b), f.ContentOffset)
			b = avrofile.AppendLong(avrofile.AppendSome(b), f.ContentSize)
		} else {
			b = avrofile.AppendNull(avrofile.AppendNull(b))
		}
	}
	return b
}

// appendColumns writes value counts to upper bounds. A delete file has none but the bounds of the path that it
// refers to, equal and untruncated: Polars and PyIceberg match by them, not by referenced_data_file.
func (m *Manifest) appendColumns(b []byte, f *File) []byte {
	columns := f.Columns
	if m.Content == PositionDeletes {
		path := []byte(f.ReferencedDataFile)
		columns = []Column{{FieldID: PathFieldID, Lower: path, Upper: path}}
		b = avrofile.AppendNull(avrofile.AppendNull(b))
	} else {
		columns = slices.Clone(columns)
		slices.SortFunc(columns, func(x, y Column) int { return int(x.FieldID) - int(y.FieldID) })
		b = appendCounts(b, columns, func(c Column) int64 { return c.Values })
		b = appendCounts(b, columns, func(c Column) int64 { return c.Nulls })
	}
	b = avrofile.AppendNull(b) // nan_value_counts
	b = appendBounds(b, columns, func(c Column) []byte { return c.Lower })
	return appendBounds(b, columns, func(c Column) []byte { return c.Upper })
}

func appendCounts(b []byte, columns []Column, of func(Column) int64) []byte {
	if len(columns) == 0 {
		return avrofile.AppendNull(b)
	}
	b = avrofile.AppendLong(avrofile.AppendSome(b), int64(len(columns)))
	for _, c := range columns {
		b = avrofile.AppendLong(b, int64(c.FieldID))
		b = avrofile.AppendLong(b, of(c))
	}
	return avrofile.AppendLong(b, 0)
}

func appendBounds(b []byte, columns []Column, of func(Column) []byte) []byte {
	n := int64(0)
	for _, c := range columns {
		if of(c) != nil {
			n++
		}
	}
	if n == 0 {
		return avrofile.AppendNull(b)
	}
	b = avrofile.AppendLong(avrofile.AppendSome(b), n)
	for _, c := range columns {
		if v := of(c); v != nil {
			b = avrofile.AppendLong(b, int64(c.FieldID))
			b = avrofile.AppendBytes(b, v)
		}
	}
	return avrofile.AppendLong(b, 0)
}

func appendOffsets(b []byte, offsets []int64) []byte {
	if len(offsets) == 0 {
		return avrofile.AppendNull(b)
	}
	b = avrofile.AppendLong(avrofile.AppendSome(b), int64(len(offsets)))
	for _, o := range offsets {
		b = avrofile.AppendLong(b, o)
	}
	return avrofile.AppendLong(b, 0)
}

func checkFormat(v int) error {
	if v != V2 && v != V3 {
		return fmt.Errorf("format version %d: %w", v, fault.ErrInvalid)
	}
	return nil
}
