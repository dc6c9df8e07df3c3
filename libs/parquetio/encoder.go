package parquetio

import (
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// RowGroup is one encoded row group. A batch without rows gives the zero RowGroup, which belongs in no file.
type RowGroup struct {
	Pages     []byte // dictionary and data pages of all columns, position independent
	Meta      *Meta  // what the tail of a file says of it
	Rows      int64
	SizeBytes int64  // len(Pages)
	TailBytes int64  // upper bound of what it adds to the tail of a file, wherever it lies
	CRC       uint32 // CRC-32C of Pages
	Columns   []ColumnBounds
}

// Encoder encodes row groups of one file schema. Safe for concurrent use: an Encode keeps what it needs to itself.
type Encoder struct {
	shape   *shape
	base    int64
	buffers sync.Pool // of *buffers
}

// NewEncoder prepares a file schema. fault.ErrInvalid: a type of it cannot be stored.
func NewEncoder(s *schema.Schema) (*Encoder, error) {
	sh, err := newShape(s)
	if err != nil {
		return nil, err
	}
	base, err := sh.fileBase()
	if err != nil {
		return nil, err
	}
	return &Encoder{shape: sh, base: base}, nil
}

// FileBase is an upper bound of the bytes that every file of the schema has beside its row groups: both magics,
// the footer's fixed part and its length. A file whose declared size is FileBase plus the SizeBytes and TailBytes
// of its row groups is never too small.
func (e *Encoder) FileBase() int64 { return e.base }

// Encode writes the rows of a batch. It only reads the batch; the result holds no reference to it.
// fault.ErrInvalid: the batch contradicts itself or the schema, or one value is too large for a page.
func (e *Encoder) Encode(b *column.Batch) (RowGroup, error) {
	if len(b.Leaves) != len(e.shape.leaves) {
		return RowGroup{}, fmt.Errorf("batch of %d columns for a schema of %d: %w", len(b.Leaves), len(e.shape.leaves), fault.ErrInvalid)
	}
	if b.Rows == 0 {
		return RowGroup{}, nil
	}
	w, err := e.chunkWriter()
	if err != nil {
		return RowGroup{}, err
	}
	defer e.done(w)
	out := RowGroup{Rows: int64(b.Rows), Meta: &Meta{}}
	out.Meta.RowGroup.NumRows = int64(b.Rows)
	for i := range e.shape.leaves {
		lf := &e.shape.leaves[i]
		c, err := w.write(lf, b.Leaves[i], b.Rows)
		if err != nil {
			return RowGroup{}, fmt.Errorf("encode column %s: %w", lf.path[0], err)
		}
		out.Meta.add(c)
		if lf.bounded {
			out.Columns = append(out.Columns, lf.icebergBounds(b.Leaves[i], c))
		}
	}
	out.Pages = w.out
	out.SizeBytes = int64(len(w.out))
	out.CRC = Checksum(w.out)
	out.Meta.RowGroup.FileOffset = magicBytes
	out.Meta.RowGroup.TotalCompressedSize = out.SizeBytes
	if out.TailBytes, err = out.Meta.tailBytes(); err != nil {
		return RowGroup{}, err
	}
	out.Meta.TailBytes = out.TailBytes
	return out, nil
}

// Checksum is the CRC-32C that RowGroup.CRC states.
func Checksum(pages []byte) uint32 {
	return crc32.Checksum(pages, crc32.MakeTable(crc32.Castagnoli))
}

// chunkWriter appends the column chunks of one row group to out. It lives for one row group only, its compressor
// included, so that no state of an earlier row group can reach the bytes of a later one.
type chunkWriter struct {
	zstd *zstd.Encoder
	out  []byte
	*buffers
}

// buffers is memory that is used for one row group after the other, and holds nothing between them.
type buffers struct {
	page    []byte // the page being made, before compression
	scratch []byte
	packed  []byte
	values  enumerator
	written int // bytes of the row group before: about what the next one will take
}

// keepBytes is the largest buffer that is kept for the next row group.
const keepBytes = 4 * pageTarget

func (e *Encoder) chunkWriter() (*chunkWriter, error) {
	// Literal-only blocks are entropy coded too: hexadecimal ids are a third smaller for it.
	// No page is much larger than pageTarget, so a larger window would cost memory and find nothing.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithAllLitEntropyCompression(true), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true),
		zstd.WithWindowSize(pageTarget), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("start the compressor: %w", err)
	}
	b, ok := e.buffers.Get().(*buffers)
	if !ok {
		b = &buffers{values: enumerator{key: newHashKey()}}
	}
	return &chunkWriter{zstd: z, out: make([]byte, 0, b.written+b.written/8), buffers: b}, nil
}

// done ends the compressor and gives the buffers back.
func (e *Encoder) done(w *chunkWriter) {
	w.zstd.Close() //nolint:errcheck // it writes to nothing
	w.written = len(w.out)
	if cap(w.page) > keepBytes || cap(w.packed) > keepBytes || cap(w.scratch) > keepBytes {
		w.page, w.packed, w.scratch = nil, nil, nil
	}
	e.buffers.Put(w.buffers)
}

// chunk is a written column chunk: what goes into the footer, and what its bounds are made of.
type chunk struct {
	column format.ColumnChunk
	ci     *format.ColumnIndex // nil when a page has no bounds to state
	oi     format.OffsetIndex
	whole  bounds
	nulls  int64
}
