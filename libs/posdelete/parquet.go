package posdelete

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Names and reserved field ids of the two columns.
const (
	pathName = "file_path"
	posName  = "pos"
	pathID   = 2147483546
	posID    = 2147483545
)

// plan is everything of a file but its positions.
type plan struct {
	count int64
	// head is the magic and all pages of the path's column.
	head []byte
	// full and last are the page headers of the position's column.
	full, last []byte
	// tail is the footer, its length and the magic.
	tail []byte
}

// size is the length of the file.
func (p *plan) size() int64 {
	return int64(len(p.head)) + p.posColumnSize() + int64(len(p.tail))
}

func (p *plan) posColumnSize() int64 {
	if p.count == 0 {
		return 0
	}
	return (pages(p.count)-1)*int64(len(p.full)) + int64(len(p.last)) + p.count*posBytes
}

// posPage is the header, and the number of values, of the page that begins with value number first.
func (p *plan) posPage(first int64) (header []byte, values int64) {
	if left := p.count - first; left <= pageValues {
		return p.last, left
	}
	return p.full, pageValues
}

// pages is the number of pages of each column.
func pages(count int64) int64 { return (count + pageValues - 1) / pageValues }

// lastPage is the number of values in the last page of each column.
func lastPage(count int64) int64 { return count - (pages(count)-1)*pageValues }

func newPlan(path string, count int64, minPos, maxPos uint32) (plan, error) {
	p := plan{count: count, head: []byte(magic)}
	dictionary, err := dictionaryPage(path)
	if err != nil {
		return p, err
	}
	p.head = append(p.head, dictionary...)
	dataStart := len(p.head)
	full, err := pathPage(pageValues)
	if err != nil {
		return p, err
	}
	for range pages(count) - 1 {
		p.head = append(p.head, full...)
	}
	last, err := pathPage(lastPage(count))
	if err != nil {
		return p, err
	}
	p.head = append(p.head, last...)
	if p.full, err = posHeader(pageValues); err != nil {
		return p, err
	}
	if p.last, err = posHeader(lastPage(count)); err != nil {
		return p, err
	}
	err = p.close(p.footer(path, int64(dataStart), minPos, maxPos))
	return p, err
}

// emptyPlan is a file without a position: it has no row group.
func emptyPlan() (plan, error) {
	p := plan{head: []byte(magic)}
	err := p.close(footerOf(0))
	return p, err
}

// close makes the tail.
func (p *plan) close(f format.FileMetaData) error {
	footer, err := encode(f)
	if err != nil {
		return err
	}
	p.tail = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	p.tail = append(p.tail, magic...)
	return nil
}

// dictionaryPage has the path as its only value.
func dictionaryPage(path string) ([]byte, error) {
	size := int32(4 + len(path))
	b, err := encode(format.PageHeader{
		Type:                 format.DictionaryPage,
		UncompressedPageSize: size,
		CompressedPageSize:   size,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1, Encoding: format.Plain}),
	})
	if err != nil {
		return nil, err
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(path)))
	return append(b, path...), nil
}

// pathPage has n times the dictionary's value number 0: indexes of one bit, in one run.
func pathPage(n int64) ([]byte, error) {
	body := append(binary.AppendUvarint([]byte{1}, uint64(n)<<1), 0)
	b, err := encode(dataPage(n, int64(len(body)), format.RLEDictionary))
	return append(b, body...), err
}

// posHeader is the header of a page of n positions.
func posHeader(n int64) ([]byte, error) { return encode(dataPage(n, n*posBytes, format.Plain)) }

// dataPage is the header of a data page V1 of a required column: it has no levels.
func dataPage(n, size int64, encoding format.Encoding) format.PageHeader {
	return format.PageHeader{
		Type:                 format.DataPage,
		UncompressedPageSize: int32(size),
		CompressedPageSize:   int32(size),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues:               int32(n),
			Encoding:                encoding,
			DefinitionLevelEncoding: format.RLE,
			RepetitionLevelEncoding: format.RLE,
		}),
	}
}

func (p *plan) footer(path string, pathData int64, minPos, maxPos uint32) format.FileMetaData {
	pathSize := int64(len(p.head) - len(magic))
	posStart, posSize := int64(len(p.head)), p.posColumnSize()
	columns := thrift.Slice[format.ColumnChunk]{
		{MetaData: format.ColumnMetaData{
			Type:                  format.ByteArray,
			Encoding:              thrift.Slice[format.Encoding]{format.Plain, format.RLE, format.RLEDictionary},
			PathInSchema:          thrift.Slice[string]{pathName},
			NumValues:             p.count,
			TotalUncompressedSize: pathSize,
			TotalCompressedSize:   pathSize,
			DataPageOffset:        pathData,
			DictionaryPageOffset:  int64(len(magic)),
			Statistics:            format.Statistics{MinValue: []byte(path), MaxValue: []byte(path)},
		}},
		{MetaData: format.ColumnMetaData{
			Type:                  format.Int64,
			Encoding:              thrift.Slice[format.Encoding]{format.Plain, format.RLE},
			PathInSchema:          thrift.Slice[string]{posName},
			NumValues:             p.count,
			TotalUncompressedSize: posSize,
			TotalCompressedSize:   posSize,
			DataPageOffset:        posStart,
			Statistics: format.Statistics{
				MinValue: binary.LittleEndian.AppendUint64(nil, uint64(minPos)),
				MaxValue: binary.LittleEndian.AppendUint64(nil, uint64(maxPos)),
			},
		}},
	}
	f := footerOf(p.count)
	f.RowGroups = thrift.Slice[format.RowGroup]{{
		Columns:             columns,
		TotalByteSize:       pathSize + posSize,
		NumRows:             p.count,
		FileOffset:          int64(len(magic)),
		TotalCompressedSize: pathSize + posSize,
	}}
	return f
}

// footerOf is the footer of a file of count rows, without its row group.
func footerOf(count int64) format.FileMetaData {
	byType := format.ColumnOrder{Value: &format.TypeDefinedOrder{}}
	return format.FileMetaData{
		Version: 1,
		Schema:  schema(),
		NumRows: count,
		// The form that parquet-mr wants before it trusts statistics of strings.
		CreatedBy:    "frazil version 1 (build 1)",
		ColumnOrders: thrift.Slice[format.ColumnOrder]{byType, byType},
	}
}

func schema() thrift.Slice[format.SchemaElement] {
	return thrift.Slice[format.SchemaElement]{
		{Name: "table", NumChildren: thrift.New(int32(2))},
		{
			Name:           pathName,
			Type:           thrift.New(format.ByteArray),
			RepetitionType: thrift.New(format.Required),
			ConvertedType:  thrift.New(deprecated.UTF8),
			LogicalType:    format.LogicalType{Value: &format.StringType{}},
			FieldID:        pathID,
		},
		{
			Name:           posName,
			Type:           thrift.New(format.Int64),
			RepetitionType: thrift.New(format.Required),
			FieldID:        posID,
		},
	}
}

func encode(v any) ([]byte, error) {
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		return nil, fmt.Errorf("encode Parquet metadata: %w", err)
	}
	return b, nil
}
