package icebergscan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
)

// Want says what of an entry is decoded beside the fixed part.
type Want struct {
	// Stats are the columns whose statistics are kept.
	Stats []int32
	// AllStats keeps the statistics of every column.
	AllStats bool
	// Deleted keeps entries whose file the manifest's snapshot removed.
	Deleted bool
}

func (w *Want) stats(id int32) bool { return w.AllStats || slices.Contains(w.Stats, id) }

// Field ids of manifest entries (Iceberg spec, "Manifests").
const (
	entryStatus     = 0
	entrySnapshotID = 1
	entryDataFile   = 2
	entrySequence   = 3
	entryFileSeq    = 4

	filePath        = 100
	fileFormat      = 101
	filePartition   = 102
	fileRecords     = 103
	fileSize        = 104
	fileValueCounts = 109
	fileNullCounts  = 110
	fileLower       = 125
	fileUpper       = 128
	fileContent     = 134
	fileEqualityIDs = 135
	fileFirstRowID  = 142
	fileReferenced  = 143
	fileOffset      = 144
	fileContentSize = 145
)

func entryFieldByName(name string) int32 {
	switch name {
	case "status":
		return entryStatus
	case "snapshot_id":
		return entrySnapshotID
	case "data_file":
		return entryDataFile
	case "sequence_number":
		return entrySequence
	case "file_sequence_number":
		return entryFileSeq
	}
	return -1
}

func fileFieldByName(name string) int32 {
	switch name {
	case "file_path":
		return filePath
	case "file_format":
		return fileFormat
	case "partition":
		return filePartition
	case "record_count":
		return fileRecords
	case "file_size_in_bytes":
		return fileSize
	case "value_counts":
		return fileValueCounts
	case "null_value_counts":
		return fileNullCounts
	case "lower_bounds":
		return fileLower
	case "upper_bounds":
		return fileUpper
	case "content":
		return fileContent
	case "equality_ids":
		return fileEqualityIDs
	case "first_row_id":
		return fileFirstRowID
	case "referenced_data_file":
		return fileReferenced
	case "content_offset":
		return fileOffset
	case "content_size_in_bytes":
		return fileContentSize
	}
	return -1
}

// Entries reads a manifest as a stream: one entry at a time, lent until the next. An error is yielded once, with a
// nil entry, and ends the stream: fault.ErrCorrupt, fault.ErrUnsupported for a codec, or what r answers.
func Entries(r io.Reader, m *Manifest, want Want) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		d, err := newDecoder(r, m, want)
		if err != nil {
			yield(nil, fmt.Errorf("manifest %s: %w", m.Path, err))
			return
		}
		defer d.in.close()
		for {
			e, err := d.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("manifest %s: %w", m.Path, err))
				return
			}
			if e.Status == Deleted && !want.Deleted {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

type decoder struct {
	in   *ocf
	want Want
	m    *Manifest
	c    cursor
	left int64 // entries of the current block
	e    Entry
	// partitionOrder says where each field of the partition record goes, by its order in the file.
	partitionOrder []int
	seq, fileSeq   int64
	snapshotID     int64
	encoding       *Encoding // made when it is asked for
}

func newDecoder(r io.Reader, m *Manifest, want Want) (*decoder, error) {
	in, err := openOCF(r)
	if err != nil {
		return nil, err
	}
	d := &decoder{in: in, m: m, want: want}
	if err := d.prepare(); err != nil {
		in.close()
		return nil, err
	}
	return d, nil
}

// prepare gives ids to fields without and finds the partition record.
func (d *decoder) prepare() error {
	root := d.in.schema
	if root.kind != kindRecord {
		return fmt.Errorf("manifest of no records: %w", fault.ErrCorrupt)
	}
	withIDs(root, entryFieldByName)
	found := false
	for i := range root.fields {
		if root.fields[i].id != entryDataFile {
			continue
		}
		file := root.fields[i].node
		if file.kind != kindRecord {
			return fmt.Errorf("data_file is no record: %w", fault.ErrCorrupt)
		}
		withIDs(file, fileFieldByName)
		for j := range file.fields {
			if file.fields[j].id == filePartition {
				if err := d.preparePartition(file.fields[j].node); err != nil {
					return err
				}
			}
		}
		found = true
	}
	if !found {
		return fmt.Errorf("manifest without data_file: %w", fault.ErrCorrupt)
	}
	return nil
}

func withIDs(n *node, byName func(string) int32) {
	for i := range n.fields {
		if n.fields[i].id < 0 {
			n.fields[i].id = byName(n.fields[i].name)
		}
	}
}

func (d *decoder) preparePartition(n *node) error {
	if n.kind != kindRecord {
		return fmt.Errorf("partition is no record: %w", fault.ErrCorrupt)
	}
	order := make([]int, len(n.fields))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(n.fields[a].id) - int(n.fields[b].id) })
	d.partitionOrder = make([]int, len(order))
	for at, i := range order {
		d.partitionOrder[i] = at
	}
	d.e.Partition = make([]Value, len(order))
	return nil
}

func (d *decoder) next() (*Entry, error) {
	for d.left == 0 {
		block, count, err := d.in.next()
		if err != nil {
			return nil, err
		}
		d.c, d.left = cursor{buf: block}, count
	}
	d.left--
	d.reset()
	root := d.in.schema
	for i := range root.fields {
		d.entryField(&root.fields[i])
	}
	if d.c.err != nil {
		return nil, d.c.err
	}
	if err := d.inherit(); err != nil {
		return nil, err
	}
	return &d.e, nil
}

func (d *decoder) reset() {
	e := &d.e
	*e = Entry{
		Manifest: d.m, SpecID: d.m.SpecID, of: d,
		ContentOffset: Absent, ContentSize: Absent, FirstRowID: Absent,
		Partition: e.Partition, EqualityIDs: e.EqualityIDs[:0], stats: e.stats[:0], key: e.key[:0],
	}
	clear(e.Partition)
	d.seq, d.fileSeq, d.snapshotID = Absent, Absent, Absent
}

func (d *decoder) entryField(f *avroField) {
	switch f.id {
	case entryStatus:
		v, _ := d.c.long(f.node)
		d.e.Status = Status(v)
	case entrySnapshotID:
		set(&d.snapshotID)(d.c.long(f.node))
	case entrySequence:
		set(&d.seq)(d.c.long(f.node))
	case entryFileSeq:
		set(&d.fileSeq)(d.c.long(f.node))
	case entryDataFile:
		from := d.c.pos
		for i := range f.node.fields {
			d.fileField(&f.node.fields[i])
		}
		d.e.file = d.c.buf[from:d.c.pos]
	default:
		d.c.skip(f.node)
	}
}

// set answers a function that keeps a value that is there.
func set(to *int64) func(int64, bool) {
	return func(v int64, ok bool) {
		if ok {
			*to = v
		}
	}
}

func (d *decoder) fileField(f *avroField) {
	e, c := &d.e, &d.c
	switch f.id {
	case fileContent:
		v, _ := c.long(f.node)
		e.Content = Content(v)
	case filePath:
		e.Path = c.blob(f.node)
	case fileFormat:
		e.Format = c.blob(f.node)
	case filePartition:
		from := c.pos
		d.partition(f.node)
		e.partition = c.buf[from:c.pos]
	case fileRecords:
		set(&e.Records)(c.long(f.node))
	case fileSize:
		set(&e.SizeBytes)(c.long(f.node))
	case fileValueCounts, fileNullCounts, fileLower, fileUpper:
		d.statsMap(f)
	case fileEqualityIDs:
		d.equalityIDs(f.node)
	case fileFirstRowID:
		set(&e.FirstRowID)(c.long(f.node))
	case fileReferenced:
		e.ReferencedDataFile = c.blob(f.node)
	case fileOffset:
		set(&e.ContentOffset)(c.long(f.node))
	case fileContentSize:
		set(&e.ContentSize)(c.long(f.node))
	default:
		c.skip(f.node)
	}
}

func (d *decoder) partition(n *node) {
	for i := range n.fields {
		d.e.Partition[d.partitionOrder[i]] = d.value(n.fields[i].node)
	}
}

func (d *decoder) value(n *node) Value {
	c := &d.c
	n = c.branch(n)
	if n == nil {
		return Value{}
	}
	switch n.kind {
	case kindNull:
		return Value{}
	case kindBool:
		v := Value{Kind: Bool}
		if c.bool() {
			v.Int = 1
		}
		return v
	case kindVarint:
		return Value{Kind: Int, Int: c.varint()}
	case kindFloat:
		return Value{Kind: Float, Num: c.float()}
	case kindDouble:
		return Value{Kind: Float, Num: c.double()}
	case kindBytes, kindFixed:
		b := c.blob(n)
		switch {
		case n.logical == "decimal":
			return Value{Kind: Decimal, Bytes: shortest(b)}
		case n.text:
			return Value{Kind: String, Bytes: b}
		}
		return Value{Kind: Binary, Bytes: b}
	}
	c.fail("a partition value that is no primitive")
	return Value{}
}

// statsMap reads a map from field id to number or bytes: an array of records with logical type map (Iceberg spec,
// Appendix A), for which any array of two-field records is taken.
func (d *decoder) statsMap(f *avroField) {
	c := &d.c
	n := c.branch(f.node)
	if n == nil || n.kind == kindNull {
		return
	}
	if n.kind != kindArray || n.item.kind != kindRecord || len(n.item.fields) != 2 {
		c.fail("statistics that are no map")
		return
	}
	key, value := n.item.fields[0].node, n.item.fields[1].node
	for at := 0; ; {
		count := c.blockCount()
		if count == 0 {
			return
		}
		for ; count > 0 && c.err == nil; count-- {
			id, _ := c.long(key)
			if !d.want.stats(int32(id)) {
				c.skip(value)
				continue
			}
			i := d.stat(int32(id), at)
			d.keepStat(f.id, value, &d.e.stats[i])
			at = i + 1
		}
	}
}

// stat answers the place of a column's statistics. Maps come in the same order of ids, so the search begins at the
// place after the last one found.
func (d *decoder) stat(id int32, from int) int {
	stats := d.e.stats
	for i := range stats {
		at := from + i
		for at >= len(stats) {
			at -= len(stats)
		}
		if stats[at].FieldID == id {
			return at
		}
	}
	d.e.stats = append(stats, ColumnStats{FieldID: id, Values: Absent, Nulls: Absent})
	return len(stats)
}

func (d *decoder) keepStat(field int32, value *node, to *ColumnStats) {
	switch field {
	case fileValueCounts:
		set(&to.Values)(d.c.long(value))
	case fileNullCounts:
		set(&to.Nulls)(d.c.long(value))
	case fileLower:
		to.Lower = d.c.blob(value)
	case fileUpper:
		to.Upper = d.c.blob(value)
	}
}

func (d *decoder) equalityIDs(n *node) {
	c := &d.c
	n = c.branch(n)
	if n == nil || n.kind == kindNull {
		return
	}
	if n.kind != kindArray {
		c.fail("equality ids that are no array")
		return
	}
	for {
		count := c.blockCount()
		if count == 0 {
			return
		}
		for ; count > 0 && c.err == nil; count-- {
			id, _ := c.long(n.item)
			d.e.EqualityIDs = append(d.e.EqualityIDs, int32(id))
		}
	}
}

// inherit fills in what the manifest list says, and checks what every rule below relies on (Iceberg spec, "Sequence
// Number Inheritance"; InheritableMetadataFactory of Iceberg Java).
func (d *decoder) inherit() error {
	e := &d.e
	if e.Status < Existing || e.Status > Deleted {
		return fmt.Errorf("entry of status %d: %w", e.Status, fault.ErrCorrupt)
	}
	if e.Content < Data || e.Content > EqualityDeletes || (e.Content == Data) != (d.m.Content == DataManifest) {
		return fmt.Errorf("%s: content %d in a manifest of content %d: %w", e.Path, e.Content, d.m.Content, fault.ErrCorrupt)
	}
	if e.Path == nil || e.Records < 0 {
		return fmt.Errorf("%s: no path or a negative record count: %w", e.Path, fault.ErrCorrupt)
	}
	inherits := e.Status == Added || d.m.SequenceNumber == 0
	if d.seq == Absent && !inherits {
		return fmt.Errorf("%s: an existing file without a sequence number: %w", e.Path, fault.ErrCorrupt)
	}
	e.SequenceNumber, e.FileSequenceNumber, e.SnapshotID = d.seq, d.fileSeq, d.snapshotID
	if e.SequenceNumber == Absent {
		e.SequenceNumber = d.m.SequenceNumber
	}
	if e.FileSequenceNumber == Absent {
		e.FileSequenceNumber = d.m.SequenceNumber
	}
	if e.SnapshotID == Absent {
		e.SnapshotID = d.m.AddedSnapshotID
	}
	e.key = binary.AppendVarint(e.key, int64(e.SpecID))
	for _, v := range e.Partition {
		e.key = v.appendKey(e.key)
	}
	return nil
}
