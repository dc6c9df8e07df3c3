package datafile

import (
	"bufio"
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

func (r *reader) avro() error {
	var (
		paths [][]int32
		at    []int // columns of the paths
		days  []bool
		miss  error
	)
	for i, c := range r.columns {
		if r.batch.columns[i].all == nil {
			paths, at, days = append(paths, c.Field.Path), append(at, i), append(days, false)
		}
	}
	told := func(path int, has bool, logical string) {
		days[path] = logical == "date"
		if !has && miss == nil {
			miss = r.missing(at[path])
		}
	}
	in := bufio.NewReaderSize(io.NewSectionReader(r.src.Reader, 0, r.src.Size), readBuffer)
	next := int64(0)
	r.clear(0)
	for values, err := range icebergscan.Records(in, paths, told) {
		if err != nil {
			return err
		}
		if miss != nil {
			return miss
		}
		for p, i := range at {
			e := &r.batch.columns[i]
			if e.all != nil {
				continue
			}
			if e.bytes, err = appendValue(e.bytes, r.kinds[i], values[p], days[p]); err != nil {
				return fmt.Errorf("column %s: %w", r.columns[i].Field.Name, err)
			}
			e.ends = append(e.ends, len(e.bytes))
		}
		r.batch.Rows++
		if next++; r.batch.Rows == batchRows {
			if more, err := r.send(); err != nil || !more {
				return err
			}
			r.clear(next)
		}
	}
	if r.batch.Rows > 0 {
		_, err := r.send()
		return err
	}
	return nil
}

// clear empties the batch; its next row is at the position first.
func (r *reader) clear(first int64) {
	r.batch.First, r.batch.Rows = first, 0
	for i := range r.batch.columns {
		e := &r.batch.columns[i]
		e.bytes, e.ends = e.bytes[:0], e.ends[:0]
	}
}
