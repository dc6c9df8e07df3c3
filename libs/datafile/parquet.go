package datafile

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// readBuffer is how much of a column chunk is asked for at once, bytes: one request to an object store.
const readBuffer = 1 << 20

// seekGap is how many unwanted rows are rather skipped by the offset index than decoded.
const seekGap = 4 * batchRows

func (r *reader) parquet() (err error) {
	yielding := r.yield
	inside := false // a panic of the consumer is its own
	r.yield = func(b *Batch, err error) bool {
		inside = true
		more := yielding(b, err)
		inside = false
		return more
	}
	defer func() {
		// The Parquet library panics at some bytes that no writer makes: a file from outside must not end the process.
		if p := recover(); p != nil {
			if inside {
				panic(p)
			}
			err = fmt.Errorf("%w: %v", fault.ErrCorrupt, p)
		}
	}()
	// The footer and the column chunks are all that is read: no page index unless rows are looked up.
	file, err := parquet.OpenFile(r.src.Reader, r.src.Size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.SkipMagicBytes(true), parquet.OptimisticRead(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	leaves, err := r.leaves(file)
	if err != nil {
		return err
	}
	first := int64(0)
	meta := file.Metadata().RowGroups
	for i, group := range file.RowGroups() {
		n := group.NumRows()
		if r.wanted(first, n) && !r.skipped(group, leaves) {
			if more, err := r.group(group, &meta[i], leaves, first); err != nil || !more {
				return err
			}
		}
		first += n
	}
	return nil
}

// leaf is a column that is read from the file.
type leaf struct {
	at      int // in reader.columns
	index   int // in the file
	convert converter
	// stats turns limits into single-value serialisation; nil = they are of no use.
	stats func(parquet.Value) []byte
}

func (r *reader) leaves(file *parquet.File) ([]leaf, error) {
	var names []mapped
	if !hasIDs(file.Root()) {
		if r.o.Names == nil {
			return nil, fmt.Errorf("the file has no field ids and the table no schema.name-mapping.default: %w", fault.ErrUnsupported)
		}
		names = r.o.Names.fields
	}
	var out []leaf
	for i := range r.columns {
		if r.batch.columns[i].all != nil {
			continue
		}
		c, err := descend(file.Root(), r.columns[i].Field.Path, names)
		if err == nil && c != nil && !c.Leaf() {
			err = fmt.Errorf("it is no primitive: %w", fault.ErrUnsupported)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.columns[i].Field.Name, err)
		}
		if c == nil {
			if err := r.missing(i); err != nil {
				return nil, err
			}
			continue
		}
		convert, stats, err := converterOf(c.Type(), r.kinds[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", r.columns[i].Field.Name, err)
		}
		out = append(out, leaf{at: i, index: c.Index(), convert: convert, stats: stats})
	}
	return out, nil
}

func hasIDs(c *parquet.Column) bool {
	for _, child := range c.Columns() {
		if child.ID() != 0 || hasIDs(child) {
			return true
		}
	}
	return false
}

// descend finds a column by its path of field ids; nil if the file does not have it.
func descend(c *parquet.Column, path []int32, names []mapped) (*parquet.Column, error) {
	for depth, id := range path {
		var next *parquet.Column
		var below []mapped
		for _, child := range c.Columns() {
			have, m := int32(child.ID()), (*mapped)(nil)
			if names != nil {
				if m = find(names, child.Name()); m == nil || m.ID == nil {
					continue
				}
				have = *m.ID
			}
			if have == id {
				next = child
				if m != nil {
					below = m.Fields
				}
				break
			}
		}
		switch {
		case next == nil:
			return nil, nil
		case next.Repeated() || next.MaxRepetitionLevel() > 0:
			return nil, fmt.Errorf("it lies in a list or a map: %w", fault.ErrUnsupported)
		case names != nil && below == nil && depth < len(path)-1:
			return nil, nil
		}
		c, names = next, below
	}
	return c, nil
}

// wanted reports whether any of the rows [first, first+n) are wanted.
func (r *reader) wanted(first, n int64) bool {
	if r.o.Rows == nil {
		return n > 0
	}
	at := sort.Search(len(r.o.Rows), func(i int) bool { return r.o.Rows[i] >= first })
	return at < len(r.o.Rows) && r.o.Rows[at] < first+n
}

func (r *reader) skipped(group parquet.RowGroup, leaves []leaf) bool {
	if r.o.Skip == nil {
		return false
	}
	g := Group{Rows: group.NumRows(), Stats: make([]icebergscan.ColumnStats, len(r.columns))}
	for i := range g.Stats {
		g.Stats[i] = icebergscan.ColumnStats{FieldID: r.columns[i].Field.ID, Values: icebergscan.Absent, Nulls: icebergscan.Absent}
	}
	chunks := group.ColumnChunks()
	for _, l := range leaves {
		chunk, ok := chunks[l.index].(*parquet.FileColumnChunk)
		if !ok {
			continue
		}
		s := &g.Stats[l.at]
		lower, upper, ok := chunk.Bounds()
		if !ok || l.stats == nil {
			continue
		}
		// A null count of 0 may only mean that none was written: it is not gone by.
		if nulls := chunk.NullCount(); nulls > 0 {
			s.Values, s.Nulls = g.Rows, nulls
		}
		s.Lower, s.Upper = l.stats(lower), l.stats(upper)
	}
	return r.o.Skip(g)
}

// group reads one row group, column by column in step. false if the consumer has had enough.
func (r *reader) group(group parquet.RowGroup, meta *format.RowGroup, leaves []leaf, first int64) (more bool, err error) {
	chunks := group.ColumnChunks()
	open := make([]*columnReader, 0, len(leaves))
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.close())
		}
	}()
	for _, l := range leaves {
		c, err := r.openColumn(chunks[l.index], &meta.Columns[l.index].MetaData, l)
		if err != nil {
			return false, err
		}
		open = append(open, c)
	}
	n := group.NumRows()
	for row := int64(0); row < n; {
		next := r.seek(first, row, n)
		if next >= n {
			return true, nil
		}
		if next != row {
			for _, c := range open {
				if err := c.seek(next); err != nil {
					return false, err
				}
			}
			row = next
		}
		rows := int(min(batchRows, n-row))
		r.clear(first + row)
		r.batch.Rows = rows
		for _, c := range open {
			if err := c.read(&r.batch.columns[c.leaf.at], rows); err != nil {
				return false, fmt.Errorf("column %s: %w", r.columns[c.leaf.at].Field.Name, err)
			}
		}
		if more, err := r.send(); err != nil || !more {
			return false, err
		}
		row += int64(rows)
	}
	return true, nil
}

// seek answers the row of the group to go on with: row itself, or one far ahead if no row before it is wanted.
func (r *reader) seek(first, row, n int64) int64 {
	if r.o.Rows == nil {
		return row
	}
	at := sort.Search(len(r.o.Rows), func(i int) bool { return r.o.Rows[i] >= first+row })
	if at == len(r.o.Rows) || r.o.Rows[at] >= first+n {
		return n
	}
	if next := r.o.Rows[at] - first; next-row >= seekGap {
		return next
	}
	return row
}

type columnReader struct {
	leaf   leaf
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
}

func (r *reader) openColumn(chunk parquet.ColumnChunk, meta *format.ColumnMetaData, l leaf) (*columnReader, error) {
	if r.o.Rows != nil {
		// Pages are found by it. A file without one is read from the front.
		if _, err := chunk.OffsetIndex(); err != nil && !errors.Is(err, parquet.ErrMissingOffsetIndex) {
			return nil, fmt.Errorf("offset index: %w", err)
		}
	}
	in := r.src.Reader
	if c, ok := chunk.(*parquet.FileColumnChunk); ok {
		if r.o.Rows == nil {
			start := meta.DataPageOffset
			if d := meta.DictionaryPageOffset; d > 0 && d < start {
				start = d
			}
			in = &windowed{in: in, end: min(r.src.Size, start+meta.TotalCompressedSize)}
		}
		return &columnReader{leaf: l, pages: c.PagesFrom(in), buf: make([]parquet.Value, batchRows)}, nil
	}
	return &columnReader{leaf: l, pages: chunk.Pages(), buf: make([]parquet.Value, batchRows)}, nil
}

func (c *columnReader) seek(row int64) error {
	parquet.Release(c.page)
	c.page, c.values = nil, nil
	if err := c.pages.SeekToRow(row); err != nil {
		return fmt.Errorf("seek to row %d: %w", row, err)
	}
	return nil
}

// read appends n values.
func (c *columnReader) read(to *encoded, n int) error {
	for n > 0 {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if errors.Is(err, io.EOF) {
				return fmt.Errorf("fewer values than rows: %w", fault.ErrCorrupt)
			}
			if err != nil {
				return fmt.Errorf("read page: %w", err)
			}
			c.page, c.values = page, page.Values()
		}
		got, err := c.values.ReadValues(c.buf[:min(n, len(c.buf))])
		for i := range c.buf[:got] {
			if v := &c.buf[i]; v.IsNull() {
				to.bytes = appendNull(to.bytes)
			} else if to.bytes, err = c.convertTo(to.bytes, v, err); errors.Is(err, fault.ErrUnsupported) {
				return err
			}
			to.ends = append(to.ends, len(to.bytes))
		}
		n -= got
		if errors.Is(err, io.EOF) || got == 0 {
			parquet.Release(c.page)
			c.page, c.values = nil, nil
			err = nil
		}
		if err != nil {
			return fmt.Errorf("decode page: %w: %w", fault.ErrCorrupt, err)
		}
	}
	return nil
}

// convertTo keeps the error of the read unless the value has one of its own.
func (c *columnReader) convertTo(to []byte, v *parquet.Value, read error) ([]byte, error) {
	out, err := c.leaf.convert(to, v)
	if err != nil {
		return to, err
	}
	return out, read
}

func (c *columnReader) close() error {
	parquet.Release(c.page)
	if err := c.pages.Close(); err != nil {
		return fmt.Errorf("close column: %w", err)
	}
	return nil
}

// windowed reads ahead within a column chunk: a request to an object store costs more than the bytes.
type windowed struct {
	in   io.ReaderAt
	end  int64 // of the column chunk
	buf  []byte
	from int64
}

// ReadAt implements io.ReaderAt, for one goroutine.
func (w *windowed) ReadAt(p []byte, off int64) (int, error) {
	if off >= w.from && off+int64(len(p)) <= w.from+int64(len(w.buf)) {
		return copy(p, w.buf[off-w.from:]), nil
	}
	if len(p) >= readBuffer {
		return w.in.ReadAt(p, off)
	}
	n := min(readBuffer, w.end-off)
	if n < int64(len(p)) {
		return w.in.ReadAt(p, off)
	}
	if int64(cap(w.buf)) < n {
		w.buf = make([]byte, n)
	}
	w.buf, w.from = w.buf[:n], off
	got, err := w.in.ReadAt(w.buf, off)
	if got < len(w.buf) {
		w.buf = w.buf[:got]
		return copy(p, w.buf), err
	}
	return copy(p, w.buf), nil
}
