// Package virtualfile is a data file of a declared size that is assembled and never stored:
//
//	PAR1 | pages of the row groups | hole of zeros | tail (indexes, footer, length, PAR1)
//
// The front is what is true of the rows; the tail ends at the declared size; whatever is left between them is the
// hole. Which bytes are where follows from recorded numbers alone, so that the size can be stated, and any range
// answered, while most of the file has not been encoded.
package virtualfile

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/parquetio"
)

// magicBytes is the length of the magic that begins the file.
const magicBytes = int64(len(parquetio.Magic))

// RowGroup is the recorded size of one row group, bytes.
type RowGroup struct {
	SizeBytes int64 // its pages
	TailBytes int64 // upper bound of what it adds to the tail
}

// Source has the parts of a file. It is called once per part and read.
type Source interface {
	// Pages are the pages of row group i. The reader is used until the call that asked for it returns.
	Pages(i int) (io.ReaderAt, error)
	// Tail is the tail, TailSize bytes.
	Tail() ([]byte, error)
}

// File is the layout of one data file. Immutable, safe for concurrent use.
type File struct {
	declared  int64
	tailStart int64
	starts    []int64 // of the row groups' pages; one more: their end
}

// New lays out a file of declared bytes. base is parquetio's FileBase of its schema. fault.ErrRetired: the row
// groups need more than the declared size; the path can never be served.
func New(declared, base int64, groups []RowGroup) (*File, error) {
	f := &File{declared: declared, starts: make([]int64, 1, len(groups)+1)}
	tail := base - magicBytes
	f.starts[0] = magicBytes
	for i, g := range groups {
		if g.SizeBytes <= 0 || g.TailBytes <= 0 {
			return nil, fmt.Errorf("row group %d of %d and %d bytes: %w", i, g.SizeBytes, g.TailBytes, fault.ErrCorrupt)
		}
		f.starts = append(f.starts, f.starts[i]+g.SizeBytes)
		tail += g.TailBytes
	}
	f.tailStart = declared - tail
	if need := f.FrontEnd() + tail; need > declared {
		return nil, fmt.Errorf("data file needs %d bytes and declares %d: %w", need, declared, fault.ErrRetired)
	}
	return f, nil
}

// Size is the declared size, bytes.
func (f *File) Size() int64 { return f.declared }

// RowGroups is the number of row groups.
func (f *File) RowGroups() int { return len(f.starts) - 1 }

// Start is where the pages of row group i begin; Start(RowGroups()) is where the front ends.
func (f *File) Start(i int) int64 { return f.starts[i] }

// FrontEnd is where the front ends and the hole begins.
func (f *File) FrontEnd() int64 { return f.starts[len(f.starts)-1] }

// TailStart is where the hole ends and the tail begins.
func (f *File) TailStart() int64 { return f.tailStart }

// TailSize is the length of the tail, bytes.
func (f *File) TailSize() int64 { return f.declared - f.tailStart }

// Clip is the part of [off, off+length) that lies in the file; n is 0 when there is none. A negative length
// means to the end.
func (f *File) Clip(off, length int64) (from, n int64) {
	from = min(max(off, 0), f.declared)
	if length < 0 || length > f.declared-from {
		length = f.declared - from
	}
	if off < 0 {
		return from, 0
	}
	return from, length
}

// Touched says what [off, off+n) needs: row groups [first, last), and whether the tail.
func (f *File) Touched(off, n int64) (first, last int, tail bool) {
	if n <= 0 {
		return 0, 0, false
	}
	end := off + n
	groups := f.RowGroups()
	// The first group that ends behind off, and the first that begins at or behind end.
	first = sort.Search(groups, func(i int) bool { return f.starts[i+1] > off })
	last = sort.Search(groups, func(i int) bool { return f.starts[i] >= end })
	return first, max(first, last), end > f.tailStart
}

// Reader reads a file's bytes through a source, which it asks for each part at most once.
type Reader struct {
	file  *File
	src   Source
	at    int // the row group of pages; -1 none
	pages io.ReaderAt
	tail  []byte
}

// NewReader reads f through src. A Reader is used by one goroutine at a time.
func NewReader(f *File, src Source) *Reader { return &Reader{file: f, src: src, at: -1} }

// ReadAt fills p with the bytes from off on. io.EOF as io.ReaderAt says; the source's errors come back as they
// are. fault.ErrCorrupt: a part is not as long as recorded.
func (r *Reader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read at %d: %w", off, fault.ErrInvalid)
	}
	for n < len(p) && off < r.file.declared {
		m, err := r.part(p[n:], off)
		n += m
		off += int64(m)
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// part fills p from the one part that holds off, and stops at the part's end.
func (r *Reader) part(p []byte, off int64) (int, error) {
	f := r.file
	switch {
	case off < magicBytes:
		return copy(p, parquetio.Magic[off:]), nil
	case off < f.FrontEnd():
		return r.front(p, off)
	case off < f.tailStart:
		p = p[:min(int64(len(p)), f.tailStart-off)]
		clear(p)
		return len(p), nil
	}
	if r.tail == nil {
		tail, err := r.src.Tail()
		if err != nil {
			return 0, err
		}
		if int64(len(tail)) != f.TailSize() {
			return 0, fmt.Errorf("tail of %d bytes, want %d: %w", len(tail), f.TailSize(), fault.ErrCorrupt)
		}
		r.tail = tail
	}
	return copy(p, r.tail[off-f.tailStart:]), nil
}

func (r *Reader) front(p []byte, off int64) (int, error) {
	i := sort.Search(r.file.RowGroups(), func(i int) bool { return r.file.starts[i+1] > off })
	if i != r.at {
		pages, err := r.src.Pages(i)
		if err != nil {
			return 0, err
		}
		r.at, r.pages = i, pages
	}
	p = p[:min(int64(len(p)), r.file.starts[i+1]-off)]
	n, err := r.pages.ReadAt(p, off-r.file.starts[i])
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, fmt.Errorf("row group %d is shorter than recorded: %w", i, fault.ErrCorrupt)
	}
	return n, fmt.Errorf("read row group %d: %w", i, err)
}

// WriteRange writes [off, off+n) to w in pieces of at most len(buf) bytes, which w may not keep.
func (r *Reader) WriteRange(w io.Writer, off, n int64, buf []byte) error {
	for n > 0 {
		p := buf[:min(int64(len(buf)), n)]
		m, err := r.ReadAt(p, off)
		if err != nil {
			return err
		}
		if _, err := w.Write(p[:m]); err != nil {
			return err
		}
		off += int64(m)
		n -= int64(m)
	}
	return nil
}
