package parquetio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
)

// span is the part of a column chunk that one page holds, half-open in level slots, stored values and rows.
type span struct {
	slots, slotsEnd   int
	values, valuesEnd int
	row, rowEnd       int
}

// write encodes one leaf of rows rows and appends its pages.
func (w *chunkWriter) write(lf *leaf, l *column.Leaf, rows int) (*chunk, error) {
	v := newVector(l)
	dict := w.values.distinct(v)
	if dict != nil && !dictionaryPays(v, dict) {
		dict = nil
	}
	spans, err := paginate(l, v, dict != nil, rows)
	if err != nil {
		return nil, err
	}
	c := &chunk{}
	md := &c.column.MetaData
	typ, _ := physical(lf.kind)
	md.Type, md.PathInSchema, md.Codec = typ, lf.path, format.Zstd
	md.Encoding = thrift.Slice[format.Encoding]{format.Plain, format.RLE}
	start := len(w.out)
	width := 0
	if dict != nil {
		md.Encoding = append(md.Encoding, format.RLEDictionary)
		md.DictionaryPageOffset = magicBytes + int64(start)
		width = max(1, bits.Len(uint(len(dict.first)-1)))
		if err := w.dictionaryPage(md, v, dict); err != nil {
			return nil, err
		}
	}
	md.DataPageOffset = magicBytes + int64(len(w.out))
	index := newIndexer(v)
	for _, s := range spans {
		if err := w.dataPage(c, l, v, dict, width, s); err != nil {
			return nil, err
		}
		index.add(v, s)
	}
	md.TotalCompressedSize = int64(len(w.out) - start)
	index.finish(c)
	return c, nil
}

// dictionaryPays compares what the values take either way before compression.
func dictionaryPays(v vector, d *dictionary) bool {
	if v.len() == 0 {
		return false
	}
	plain, dict := v.total(), 0
	for _, at := range d.first {
		dict += v.size(int(at))
	}
	width := max(1, bits.Len(uint(len(d.first)-1)))
	return dict <= pageTarget && 4*(dict+v.len()*width/8) <= 3*plain
}

// paginate cuts a leaf into pages of about pageTarget bytes, at row boundaries: with a page index a row may not
// lie on two pages (Parquet format, PageIndex.md).
func paginate(l *column.Leaf, v vector, dict bool, rows int) ([]span, error) {
	slots := v.len()
	if l.MaxDef > 0 {
		slots = len(l.Def)
	}
	if l.MaxRep > 0 && len(l.Rep) != slots {
		return nil, fmt.Errorf("%d repetition levels for %d slots: %w", len(l.Rep), slots, fault.ErrInvalid)
	}
	if one, ok := onePage(l, v, slots, rows); ok {
		return []span{one}, nil
	}
	var spans []span
	var cur span
	size := 0
	for i := range slots {
		if l.MaxRep == 0 || l.Rep[i] == 0 {
			if size >= pageTarget {
				spans = append(spans, cur)
				cur = span{i, i, cur.valuesEnd, cur.valuesEnd, cur.rowEnd, cur.rowEnd}
				size = 0
			}
			cur.rowEnd++
		}
		cur.slotsEnd++
		if l.MaxDef > 0 && l.Def[i] != l.MaxDef {
			size++
			continue
		}
		switch {
		case cur.valuesEnd == v.len():
			return nil, fmt.Errorf("%d values for more slots: %w", v.len(), fault.ErrInvalid)
		case dict:
			size += 4
		default:
			size += v.size(cur.valuesEnd)
		}
		cur.valuesEnd++
	}
	if cur.rowEnd != rows || cur.valuesEnd != v.len() {
		return nil, fmt.Errorf("%d rows and %d of %d values in a batch of %d rows: %w",
			cur.rowEnd, cur.valuesEnd, v.len(), rows, fault.ErrInvalid)
	}
	return append(spans, cur), nil
}

// onePage is the page of a leaf that is small enough for one whatever its rows are, and that does not contradict itself.
func onePage(l *column.Leaf, v vector, slots, rows int) (span, bool) {
	values, begun := slots, slots
	if l.MaxDef > 0 {
		values = bytes.Count(l.Def, []byte{l.MaxDef})
	}
	if l.MaxRep > 0 {
		begun = bytes.Count(l.Rep, []byte{0})
	}
	// An index takes no more than 4 bytes, an absent value counts as 1.
	size := slots - values + max(v.total(), 4*values)
	if size > pageTarget || values != v.len() || begun != rows || l.MaxRep > 0 && l.Rep[0] != 0 {
		return span{}, false
	}
	return span{slotsEnd: slots, valuesEnd: values, rowEnd: rows}, true
}

func (w *chunkWriter) dictionaryPage(md *format.ColumnMetaData, v vector, d *dictionary) error {
	w.page = w.page[:0]
	for _, at := range d.first {
		w.page = v.plain(w.page, int(at), int(at)+1)
	}
	return w.emit(md, format.PageHeader{
		Type: format.DictionaryPage,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{
			NumValues: int32(len(d.first)), Encoding: format.Plain,
		}),
	}, format.Plain)
}

func (w *chunkWriter) dataPage(c *chunk, l *column.Leaf, v vector, d *dictionary, width int, s span) error {
	w.page = w.page[:0]
	if l.MaxRep > 0 {
		if err := w.levels(l.Rep[s.slots:s.slotsEnd], l.MaxRep); err != nil {
			return err
		}
	}
	if l.MaxDef > 0 {
		if err := w.levels(l.Def[s.slots:s.slotsEnd], l.MaxDef); err != nil {
			return err
		}
	}
	enc := format.Plain
	if d != nil {
		enc = format.RLEDictionary
		var err error
		e := rle.Encoding{BitWidth: width}
		if w.scratch, err = e.EncodeInt32(w.scratch, d.indexes[s.values:s.valuesEnd]); err != nil {
			return fmt.Errorf("encode indexes: %w", err)
		}
		w.page = append(append(w.page, byte(width)), w.scratch...)
	} else {
		w.page = v.plain(w.page, s.values, s.valuesEnd)
	}
	offset := magicBytes + int64(len(w.out))
	err := w.emit(&c.column.MetaData, format.PageHeader{
		Type: format.DataPage,
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(s.slotsEnd - s.slots), Encoding: enc,
			DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		}),
	}, enc)
	if err != nil {
		return err
	}
	c.oi.PageLocations = append(c.oi.PageLocations, format.PageLocation{
		Offset: offset, CompressedPageSize: int32(magicBytes + int64(len(w.out)) - offset), FirstRowIndex: int64(s.row),
	})
	c.column.MetaData.NumValues += int64(s.slotsEnd - s.slots)
	c.nulls += int64((s.slotsEnd - s.slots) - (s.valuesEnd - s.values))
	return nil
}

// levels appends repetition or definition levels in the form of page version 1: RLE behind its length.
func (w *chunkWriter) levels(levels []uint8, highest uint8) error {
	e := rle.Encoding{BitWidth: bits.Len8(highest)}
	var err error
	if w.scratch, err = e.EncodeLevels(w.scratch, levels); err != nil {
		return fmt.Errorf("encode levels: %w", err)
	}
	w.page = binary.LittleEndian.AppendUint32(w.page, uint32(len(w.scratch)))
	w.page = append(w.page, w.scratch...)
	return nil
}

// emit compresses w.page and appends it behind its header.
func (w *chunkWriter) emit(md *format.ColumnMetaData, h format.PageHeader, enc format.Encoding) error {
	if len(w.page) > math.MaxInt32/2 {
		return fmt.Errorf("page of %d bytes: %w", len(w.page), fault.ErrInvalid)
	}
	w.packed = w.zstd.EncodeAll(w.page, w.packed[:0])
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(w.page)), int32(len(w.packed))
	h.CRC = int32(crc32.ChecksumIEEE(w.packed))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	if err != nil {
		return fmt.Errorf("encode page header: %w", err)
	}
	w.out = append(append(w.out, head...), w.packed...)
	md.TotalUncompressedSize += int64(len(head) + len(w.page))
	for i := range md.EncodingStats {
		if s := &md.EncodingStats[i]; s.PageType == h.Type && s.Encoding == enc {
			s.Count++
			return nil
		}
	}
	md.EncodingStats = append(md.EncodingStats, format.PageEncodingStats{PageType: h.Type, Encoding: enc, Count: 1})
	return nil
}
