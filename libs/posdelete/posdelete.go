// Package posdelete renders position delete files, the delete files of format version 2: Parquet with one data
// file's path and ascending row positions. The length of a file is a function of the number of positions and
// the length of the path, so that a manifest can state it before the positions are composed.
//
// For that nothing is compressed, pages have a fixed number of values, page headers carry no checksum and no
// statistics, and those of the column chunks have a fixed width. Source: Iceberg spec, "Position Delete Files"
// and "Reserved Field IDs".
package posdelete

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
)

const (
	magic     = "PAR1"
	tailBytes = 4 + len(magic) // length of the footer, magic
	posBytes  = 8

	// pageValues is the number of values in every page but the last.
	pageValues = 64 << 10
	// maxPositions is how many positions a data file can have.
	maxPositions = 1 << 31
)

// Length is the size in bytes of the file with count positions, at least one, for a data file whose path has
// pathLen characters. fault.ErrInvalid: there is no such file.
func Length(count int64, pathLen int) (int64, error) {
	if count < 1 || count > maxPositions || pathLen < 1 {
		return 0, fmt.Errorf("position delete file of %d positions, path of %d: %w", count, pathLen, fault.ErrInvalid)
	}
	// The bytes of the path and the positions do not matter here: only their number does.
	p, err := newPlan(strings.Repeat("x", pathLen), count, 0, 0)
	if err != nil {
		return 0, err
	}
	return p.size(), nil
}

// File is a position delete file that is rendered as it is written. Immutable; safe for concurrent use.
type File struct {
	plan      plan
	positions *roaring.Bitmap
	hole      int64 // zeros before the footer
}

// New prepares the file of the data file at path, the full URI that its manifest entry states. The caller may
// not change positions any more. fault.ErrInvalid: there is none.
func New(path string, positions *roaring.Bitmap) (*File, error) {
	if positions.IsEmpty() || path == "" {
		return nil, fmt.Errorf("position delete file of %q with %d positions: %w", path, positions.GetCardinality(), fault.ErrInvalid)
	}
	p, err := newPlan(path, int64(positions.GetCardinality()), positions.Minimum(), positions.Maximum())
	if err != nil {
		return nil, err
	}
	return &File{plan: p, positions: positions}, nil
}

// Padded prepares a file whose size was stated before its positions were known: zeros before the footer make up for
// what they do not need. There may be no position. Engines read past such a hole: docs/adr/0018-lazy-tables.md.
// fault.ErrInvalid: size is too small.
func Padded(path string, positions *roaring.Bitmap, size int64) (*File, error) {
	f := &File{positions: positions}
	var err error
	if path == "" {
		return nil, fmt.Errorf("position delete file without a path: %w", fault.ErrInvalid)
	}
	if positions.IsEmpty() {
		f.plan, err = emptyPlan()
	} else {
		f.plan, err = newPlan(path, int64(positions.GetCardinality()), positions.Minimum(), positions.Maximum())
	}
	if err != nil {
		return nil, err
	}
	if f.hole = size - f.plan.size(); f.hole < 0 {
		return nil, fmt.Errorf("position delete file of %d positions needs %d bytes, has %d: %w",
			positions.GetCardinality(), f.plan.size(), size, fault.ErrInvalid)
	}
	return f, nil
}

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.plan.size() + f.hole }

// WriteRange writes bytes [off, off+n) of the file to w, a page at a time. fault.ErrInvalid: they are not all
// in the file.
func (f *File) WriteRange(w io.Writer, off, n int64) error {
	if off < 0 || n < 0 || off > f.Size() || n > f.Size()-off {
		return fmt.Errorf("bytes [%d,%d) of a position delete file of %d: %w", off, off+n, f.Size(), fault.ErrInvalid)
	}
	out := window{w: w, skip: off, left: n}
	if err := out.write(f.plan.head); err != nil {
		return err
	}
	from := &cursor{it: f.positions.ManyIterator(), buf: make([]uint32, 4096)}
	for first := int64(0); first < f.plan.count && out.left > 0; first += pageValues {
		header, values := f.plan.posPage(first)
		if size := int64(len(header)) + values*posBytes; out.skip >= size {
			out.skip -= size
			continue
		}
		if err := out.write(header); err != nil {
			return err
		}
		if err := out.writePositions(from, first, values); err != nil {
			return err
		}
	}
	if err := out.zeros(f.hole); err != nil {
		return err
	}
	return out.write(f.plan.tail)
}

// writePositions writes the positions number [first, first+n), PLAIN. It renders only those that the window passes on.
func (o *window) writePositions(from *cursor, first, n int64) error {
	skipped := min(n, o.skip/posBytes)
	o.skip -= skipped * posBytes
	n = min(n-skipped, (o.skip+o.left+posBytes-1)/posBytes)
	page := make([]byte, n*posBytes)
	if err := from.read(page, first+skipped); err != nil {
		return err
	}
	return o.write(page)
}

// cursor reads positions in their order.
type cursor struct {
	it  roaring.ManyIntIterable
	at  int64 // the number of the next one
	buf []uint32
}

// read fills b with the positions from number first on. first never decreases.
func (c *cursor) read(b []byte, first int64) error {
	for c.at < first || len(b) > 0 {
		values := c.buf[:min(int64(len(c.buf)), max(first-c.at, 0))]
		passed := len(values) > 0
		if !passed {
			values = c.buf[:min(len(c.buf), len(b)/posBytes)]
		}
		n := c.it.NextMany(values)
		if n == 0 {
			return fmt.Errorf("position number %d: there are only %d: %w", first, c.at, fault.ErrInvalid)
		}
		c.at += int64(n)
		if passed {
			continue
		}
		for i, v := range values[:n] {
			binary.LittleEndian.PutUint64(b[i*posBytes:], uint64(v))
		}
		b = b[n*posBytes:]
	}
	return nil
}

// window passes on a range of what is written to it.
type window struct {
	w          io.Writer
	skip, left int64
}

func (o *window) write(b []byte) error {
	cut := min(o.skip, int64(len(b)))
	o.skip -= cut
	b = b[cut:]
	b = b[:min(o.left, int64(len(b)))]
	if len(b) == 0 {
		return nil
	}
	o.left -= int64(len(b))
	_, err := o.w.Write(b)
	return err
}

// zeros writes n zeros, a page at a time.
func (o *window) zeros(n int64) error {
	cut := min(o.skip, n)
	o.skip -= cut
	n = min(n-cut, o.left)
	page := make([]byte, min(n, pageValues))
	for n > 0 {
		m := min(n, int64(len(page)))
		if err := o.write(page[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}
