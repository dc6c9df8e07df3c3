package parquetio

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/fault"
)

// Magic begins and ends every Parquet file.
const Magic = "PAR1"

const (
	magicBytes = int64(len(Magic))
	// maxFile bounds the size of a file: no varint of an offset is longer than this one's.
	maxFile = int64(1) << 40
	// maxRows bounds the rows of a file in the same way.
	maxRows = int64(1) << 40
	// maxRowGroups fits the ordinal, an int16.
	maxRowGroups = 1<<15 - 1
	// listGrowth is what the header of the footer's list of row groups may take beyond that of an empty list.
	listGrowth = 3
)

// Meta is what the tail of a file says of one row group. Its offsets are those of a file that begins with this
// row group. It is immutable once made; any number of files may share it.
type Meta struct {
	RowGroup      format.RowGroup
	ColumnIndexes []format.ColumnIndex // by leaf; no null pages at all = the column has no index
	OffsetIndexes []format.OffsetIndex // by leaf
	// TailBytes is an upper bound of what the row group adds to the tail of a file, wherever it lies.
	TailBytes int64
}

// wireMeta is Meta's thrift form, in which it is cached.
type wireMeta struct {
	RowGroup      format.RowGroup                  `thrift:"1,required"`
	ColumnIndexes thrift.Slice[format.ColumnIndex] `thrift:"2,required"`
	OffsetIndexes thrift.Slice[format.OffsetIndex] `thrift:"3,required"`
	TailBytes     int64                            `thrift:"4,required"`
}

// MarshalBinary is the form that UnmarshalMeta reads.
func (m *Meta) MarshalBinary() ([]byte, error) {
	b, err := marshal(&wireMeta{m.RowGroup, m.ColumnIndexes, m.OffsetIndexes, m.TailBytes})
	if err != nil {
		return nil, fmt.Errorf("encode row group metadata: %w", err)
	}
	return b, nil
}

// UnmarshalMeta reads what MarshalBinary wrote. fault.ErrCorrupt: it is something else.
func UnmarshalMeta(b []byte) (*Meta, error) {
	var w wireMeta
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b, &w); err != nil {
		return nil, fmt.Errorf("decode row group metadata: %w: %w", err, fault.ErrCorrupt)
	}
	n := len(w.RowGroup.Columns)
	if n == 0 || len(w.ColumnIndexes) != n || len(w.OffsetIndexes) != n {
		return nil, fmt.Errorf("row group metadata of %d columns with %d and %d indexes: %w",
			n, len(w.ColumnIndexes), len(w.OffsetIndexes), fault.ErrCorrupt)
	}
	return &Meta{w.RowGroup, w.ColumnIndexes, w.OffsetIndexes, w.TailBytes}, nil
}

// Rows is the number of rows.
func (m *Meta) Rows() int64 { return m.RowGroup.NumRows }

// SizeBytes is the length of the row group's pages.
func (m *Meta) SizeBytes() int64 { return m.RowGroup.TotalCompressedSize }

func (m *Meta) add(c *chunk) {
	m.RowGroup.Columns = append(m.RowGroup.Columns, c.column)
	m.RowGroup.TotalByteSize += c.column.MetaData.TotalUncompressedSize
	ci := format.ColumnIndex{ // none, in a form that survives MarshalBinary
		NullPages: thrift.Slice[bool]{}, MinValues: thrift.Slice[[]byte]{}, MaxValues: thrift.Slice[[]byte]{},
	}
	if c.ci != nil {
		ci = *c.ci
	}
	m.ColumnIndexes = append(m.ColumnIndexes, ci)
	m.OffsetIndexes = append(m.OffsetIndexes, c.oi)
}

// tailBytes is what the row group adds to a tail when every number that depends on its place is at its longest.
func (m *Meta) tailBytes() (int64, error) {
	cis, ois, err := m.indexes(maxFile - magicBytes)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for i := range cis {
		total += int64(len(cis[i]) + len(ois[i]))
	}
	rg := m.moved(maxFile-magicBytes, maxRowGroups)
	for i := range rg.Columns {
		rg.Columns[i].ColumnIndexOffset, rg.Columns[i].ColumnIndexLength = maxFile, int32(len(cis[i]))
		rg.Columns[i].OffsetIndexOffset, rg.Columns[i].OffsetIndexLength = maxFile, int32(len(ois[i]))
	}
	entry, err := marshal(&rg)
	if err != nil {
		return 0, fmt.Errorf("encode row group: %w", err)
	}
	return total + int64(len(entry)), nil
}

// indexes writes the column and offset indexes of the row group moved by delta.
func (m *Meta) indexes(delta int64) (cis, ois [][]byte, err error) {
	cis, ois = make([][]byte, len(m.ColumnIndexes)), make([][]byte, len(m.OffsetIndexes))
	for i := range m.ColumnIndexes {
		if len(m.ColumnIndexes[i].NullPages) > 0 {
			if cis[i], err = marshal(&m.ColumnIndexes[i]); err != nil {
				return nil, nil, fmt.Errorf("encode column index: %w", err)
			}
		}
		oi := m.OffsetIndexes[i]
		oi.PageLocations = append(oi.PageLocations[:0:0], oi.PageLocations...)
		for j := range oi.PageLocations {
			oi.PageLocations[j].Offset += delta
		}
		if ois[i], err = marshal(&oi); err != nil {
			return nil, nil, fmt.Errorf("encode offset index: %w", err)
		}
	}
	return cis, ois, nil
}

// moved is the row group's footer entry moved by delta.
func (m *Meta) moved(delta int64, ordinal int16) format.RowGroup {
	rg := m.RowGroup
	rg.FileOffset += delta
	rg.Ordinal = ordinal
	rg.Columns = append(rg.Columns[:0:0], rg.Columns...)
	for i := range rg.Columns {
		md := &rg.Columns[i].MetaData
		md.DataPageOffset += delta
		if md.DictionaryPageOffset != 0 {
			md.DictionaryPageOffset += delta
		}
	}
	return rg
}

// Placed is a row group and where its pages begin in a file.
type Placed struct {
	Meta   *Meta
	Offset int64
}

// Tail is the end of a file of declared bytes: column indexes, offset indexes, zeros up to the bound that
// FileBase and TailBytes state, footer, its length and the magic. It begins at declared minus that bound, whatever
// the row groups' places, so that it begins right behind the last row group when declared is exactly
// FileBase plus all SizeBytes and TailBytes. groups are by ascending offset; without one the file has no rows.
// fault.ErrInvalid: more row groups, rows or bytes than a file may have.
func (e *Encoder) Tail(groups []Placed, declared int64) (tail []byte, err error) {
	size := e.TailSize(groups)
	start := declared - size
	if declared > maxFile || start < magicBytes || len(groups) > maxRowGroups {
		return nil, fmt.Errorf("tail of %d bytes for %d row groups in a file of %d bytes: %w", size, len(groups), declared, fault.ErrInvalid)
	}
	fm := e.shape.footer()
	tail = make([]byte, 0, size)
	var ois [][]byte
	for k, g := range groups {
		delta := g.Offset - magicBytes
		cis, oi, err := g.Meta.indexes(delta)
		if err != nil {
			return nil, err
		}
		ois = append(ois, oi...)
		rg := g.Meta.moved(delta, int16(k))
		for i := range cis {
			if len(cis[i]) > 0 {
				rg.Columns[i].ColumnIndexOffset, rg.Columns[i].ColumnIndexLength = start+int64(len(tail)), int32(len(cis[i]))
				tail = append(tail, cis[i]...)
			}
		}
		fm.RowGroups = append(fm.RowGroups, rg)
		fm.NumRows += rg.NumRows
	}
	if fm.NumRows > maxRows {
		return nil, fmt.Errorf("file of %d rows: %w", fm.NumRows, fault.ErrInvalid)
	}
	at := 0
	for k := range fm.RowGroups {
		for i := range fm.RowGroups[k].Columns {
			c := &fm.RowGroups[k].Columns[i]
			c.OffsetIndexOffset, c.OffsetIndexLength = start+int64(len(tail)), int32(len(ois[at]))
			tail = append(tail, ois[at]...)
			at++
		}
	}
	return finish(tail, &fm, size)
}

// finish appends zeros and the footer so that the tail is size bytes long.
func finish(tail []byte, fm *format.FileMetaData, size int64) ([]byte, error) {
	footer, err := marshal(fm)
	if err != nil {
		return nil, fmt.Errorf("encode footer: %w", err)
	}
	pad := size - int64(len(tail)+len(footer)) - 4 - magicBytes
	if pad < 0 {
		return nil, fmt.Errorf("tail is %d bytes longer than its bound: %w", -pad, fault.ErrCorrupt)
	}
	tail = append(tail, make([]byte, pad)...)
	tail = append(tail, footer...)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(len(footer)))
	return append(tail, Magic...), nil
}

// TailSize is the length of Tail: FileBase without the first magic, plus the groups' TailBytes.
func (e *Encoder) TailSize(groups []Placed) int64 {
	size := e.base - magicBytes
	for _, g := range groups {
		size += g.Meta.TailBytes
	}
	return size
}

// footer is the footer of a file without row groups.
func (sh *shape) footer() format.FileMetaData {
	fm := format.FileMetaData{Version: 2, Schema: sh.elements, RowGroups: thrift.Slice[format.RowGroup]{}, CreatedBy: createdBy}
	for range sh.leaves {
		fm.ColumnOrders = append(fm.ColumnOrders, format.ColumnOrder{Value: new(format.TypeDefinedOrder)})
	}
	return fm
}

func (sh *shape) fileBase() (int64, error) {
	fm := sh.footer()
	fm.NumRows = maxRows
	b, err := marshal(&fm)
	if err != nil {
		return 0, fmt.Errorf("encode footer: %w", err)
	}
	return magicBytes + int64(len(b)) + listGrowth + 4 + magicBytes, nil
}
