package parquetio

import (
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// indexer collects the bounds of a column chunk's pages.
type indexer struct {
	v          vector
	pages      []bounds
	nulls      []int64
	whole      bounds
	asc, desc  bool
	last       *bounds // of the last page that has any
	incomplete bool    // a NaN was seen: no bounds are stated at all
}

func newIndexer(v vector) *indexer { return &indexer{v: v, asc: true, desc: true} }

func (x *indexer) add(v vector, s span) {
	b := v.bounds(s.values, s.valuesEnd)
	x.pages = append(x.pages, b)
	x.nulls = append(x.nulls, int64((s.slotsEnd-s.slots)-(s.valuesEnd-s.values)))
	if b.nan {
		x.incomplete = true
	}
	if !b.ok {
		return
	}
	if x.last != nil {
		lo, hi := v.compare(x.last.min, b.min), v.compare(x.last.max, b.max)
		x.asc = x.asc && lo <= 0 && hi <= 0
		x.desc = x.desc && lo >= 0 && hi >= 0
	}
	x.last = &x.pages[len(x.pages)-1]
	if !x.whole.ok {
		x.whole = b
		return
	}
	if v.compare(b.min, x.whole.min) < 0 {
		x.whole.min = b.min
	}
	if v.compare(b.max, x.whole.max) > 0 {
		x.whole.max = b.max
	}
}

// finish states the bounds. With a NaN in the chunk it states none and leaves the column index out, as parquet-mr
// does: a reader that trusts bounds would skip the page that holds it (Parquet format, "ColumnOrder").
func (x *indexer) finish(c *chunk) {
	st := &c.column.MetaData.Statistics
	st.NullCount = c.nulls
	if x.incomplete {
		return
	}
	c.whole = x.whole
	if x.whole.ok && len(x.whole.min) <= statsBound && len(x.whole.max) <= statsBound {
		st.MinValue, st.MaxValue = x.whole.min, x.whole.max
	}
	variable := c.column.MetaData.Type == format.ByteArray
	ci := &format.ColumnIndex{NullCounts: x.nulls, BoundaryOrder: x.order()}
	for _, b := range x.pages {
		lo, hi := []byte{}, []byte{}
		if b.ok {
			lo, hi = b.min, b.max
			if variable {
				lo, hi = cutLower(lo), cutUpper(hi)
			}
		}
		ci.NullPages = append(ci.NullPages, !b.ok)
		ci.MinValues = append(ci.MinValues, lo)
		ci.MaxValues = append(ci.MaxValues, hi)
	}
	c.ci = ci
}

// order says how the pages' bounds run. Cut bounds keep the order of the whole ones, if not strictly.
func (x *indexer) order() format.BoundaryOrder {
	switch {
	case x.asc:
		return format.Ascending
	case x.desc:
		return format.Descending
	default:
		return format.Unordered
	}
}

// cutLower is the longest prefix that an index keeps; it is never above v.
func cutLower(v []byte) []byte { return v[:min(len(v), indexBound):min(len(v), indexBound)] }

// cutUpper is a short bound that is never below v: its prefix with the last byte that can be raised raised by
// one. A value of nothing but 0xff bytes has no shorter upper bound and is kept whole.
func cutUpper(v []byte) []byte {
	if len(v) <= indexBound {
		return v
	}
	return raise(v, indexBound)
}

func raise(v []byte, keep int) []byte {
	cut := slices.Clone(v[:keep])
	for i := keep - 1; i >= 0; i-- {
		if cut[i] != 0xff {
			cut[i]++
			return cut[:i+1]
		}
	}
	return v
}

// marshal writes a thrift structure in the compact protocol.
func marshal(v any) ([]byte, error) { return thrift.Marshal(new(thrift.CompactProtocol), v) }
