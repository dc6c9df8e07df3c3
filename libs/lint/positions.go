package lint

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/readers"
)

// positions checks the rows of a position delete file.
func (o *opened) positions(f File, d *positionFile) error {
	if d.format != "PARQUET" {
		o.found.add("not-opened", Note, nil, "position delete files of format "+d.format+" are not opened", d.path)
		return nil
	}
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", d.path, err)
	}
	if size != d.size {
		o.found.add("size-lies", Error, nil, fmt.Sprintf("a delete file of %d bytes that the manifest says has %d: readers that trust the manifest fail", size, d.size), d.path)
	}
	c := rowCheck{o: o, d: d}
	if err := eachRow(f, size, c.row); err != nil {
		return err
	}
	c.finish()
	return nil
}

// rowCheck looks at the rows of one file in their order. It holds one path and no rows.
type rowCheck struct {
	o *opened
	d *positionFile

	rows                          int64
	path                          string
	pos                           int64
	live                          int64 // record count of the current path's data file; -1 = not live
	unsortedPaths, unsortedInPath bool
	outsideBounds, beyond         bool
	misspelt                      string
	paths                         int64 // changes of path
}

func (c *rowCheck) row(path []byte, pos int64) {
	c.rows++
	if c.rows == 1 || string(path) != c.path {
		next := string(path)
		if c.rows > 1 && next < c.path {
			c.unsortedPaths = true
		}
		c.path, c.pos, c.paths = next, -1, c.paths+1
		c.enter(next)
	}
	if pos < c.pos {
		c.unsortedInPath = true
	}
	c.pos = pos
	if pos < 0 || c.live >= 0 && pos >= c.live {
		c.beyond = true
	}
}

// enter looks at a path that rows begin to name.
func (c *rowCheck) enter(path string) {
	d := c.d
	switch {
	case d.target != "" && path != d.target, d.bounded && (path < d.lower || path > d.upper):
		c.outsideBounds = true
	}
	n, ok := c.o.kept.live[path]
	if c.live = n; ok {
		return
	}
	c.live = -1
	if written, ok := c.o.even[even(path)]; ok {
		c.misspelt = written
	}
}

func (c *rowCheck) finish() {
	o, path := c.o, c.d.path
	if c.unsortedPaths {
		o.breach("unsorted-paths", readers.Position, readers.SortedPaths, "a position delete file is not sorted by path: Trino stops at the first path beyond the one it looks for, and deleted rows come back", path)
	}
	if c.unsortedPaths || c.unsortedInPath {
		o.breach("unsorted-positions", readers.Position, readers.SortedPositions, "a position delete file is not sorted by path and position: in ClickHouse deleted rows come back", path)
	}
	if c.outsideBounds {
		o.found.add("rows-outside-bounds", Error, nil, "a position delete file has rows of data files that its bounds or reference exclude: readers that go by them leave these rows in", path)
	}
	if c.misspelt != "" {
		o.found.add("path-mismatch", Error, nil, "rows of a delete file name their data file by another spelling of the path: readers compare strings, so they delete nothing", path)
	}
	if c.beyond {
		o.found.add("positions-beyond-data", Warning, nil, "a position delete file has positions beyond the rows of its data file: Polars returns wrong rows", path)
	}
	if c.rows != c.d.records {
		o.found.add("count-lies", Note, nil, fmt.Sprintf("a delete file of %d rows states %d", c.rows, c.d.records), path)
	}
}

// eachRow streams path and position of every row. Errors: fault.ErrCorrupt for what is no position delete file.
func eachRow(f io.ReaderAt, size int64, yield func(path []byte, pos int64)) error {
	file, err := parquet.OpenFile(f, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	pathAt, posAt := leaf(file, int(icebergscan.PathFieldID), "file_path"), leaf(file, int(icebergscan.PosFieldID), "pos")
	if pathAt < 0 || posAt < 0 {
		return fmt.Errorf("no columns file_path and pos: %w", fault.ErrCorrupt)
	}
	for _, group := range file.RowGroups() {
		if err := eachRowOf(group, pathAt, posAt, yield); err != nil {
			return err
		}
	}
	return nil
}

func eachRowOf(group parquet.RowGroup, pathAt, posAt int, yield func(path []byte, pos int64)) (err error) {
	rows := group.Rows()
	defer func() { err = errors.Join(err, rows.Close()) }()
	buf := make([]parquet.Row, 256)
	for {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			var path []byte
			pos := int64(-1)
			for _, v := range row {
				switch v.Column() {
				case pathAt:
					path = v.ByteArray()
				case posAt:
					pos = v.Int64()
				}
			}
			yield(path, pos)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
		}
	}
}

// leaf finds a top-level column by field id, else by name; -1 if there is none.
func leaf(file *parquet.File, id int, name string) int {
	byName := -1
	for _, c := range file.Root().Columns() {
		if !c.Leaf() {
			continue
		}
		if c.ID() == id {
			return c.Index()
		}
		if c.Name() == name {
			byName = c.Index()
		}
	}
	return byName
}
