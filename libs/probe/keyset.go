package probe

import (
	"slices"
	"sort"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// keyset is the equality deletes of one group that have the same key columns, newest first, in blocks: most data
// files overlap with all or none of a block, and then the block's summary answers for its deletes.
type keyset struct {
	columns []int // places in run.columns
	items   []item
	cols    []column // of all items, len(columns) apiece
	levels  [blockLevels][]block
}

type item struct {
	seq    int64
	keys   int64
	fanout int64 // data files so far, without those counted in blocks
}

// blockLevels is how many sizes of blocks there are.
const blockLevels = 2

// blockSize answers the items in a block of a level.
func blockSize(level int) int { return 64 << (6 * level) }

type block struct {
	cols   []summary
	keys   int64
	n      int64
	fanout int64 // data files that overlap with every item
}

// summary is what holds for the items of a block in one column.
type summary struct {
	minLower, maxLower, minUpper, maxUpper bound
	n, bounded                             int
	containsNull, allNull, allValues       int // items
}

func (s *summary) add(c *column) {
	s.n++
	if c.containsNull {
		s.containsNull++
	}
	if c.allNull {
		s.allNull++
	}
	if c.allValues {
		s.allValues++
	}
	if !c.bounded() {
		return
	}
	if s.bounded++; s.bounded == 1 {
		s.minLower, s.maxLower, s.minUpper, s.maxUpper = c.lower, c.lower, c.upper, c.upper
		return
	}
	if c.lower.compare(s.minLower) < 0 {
		s.minLower = c.lower
	}
	if c.lower.compare(s.maxLower) > 0 {
		s.maxLower = c.lower
	}
	if c.upper.compare(s.minUpper) < 0 {
		s.minUpper = c.upper
	}
	if c.upper.compare(s.maxUpper) > 0 {
		s.maxUpper = c.upper
	}
}

type overlap int

const (
	some overlap = iota
	none
	all
)

// meets says how many of the summarised items mayMatch would let pass.
func (s *summary) meets(c *column) overlap {
	switch {
	case c.containsNull && s.containsNull == s.n:
		return all
	case c.allNull && s.allValues == s.n, c.allValues && s.allNull == s.n:
		return none
	case c.bounded() && s.bounded == s.n && !(c.containsNull && s.containsNull > 0) &&
		(c.upper.compare(s.minLower) < 0 || c.lower.compare(s.maxUpper) > 0):
		return none
	case c.allNull && s.allValues > 0, c.allValues && s.allNull > 0:
		return some
	case !c.bounded() || s.bounded == 0 || c.upper.compare(s.maxLower) >= 0 && c.lower.compare(s.minUpper) <= 0:
		return all
	}
	return some
}

// add takes a delete file; cols has one column for each of k.columns.
func (k *keyset) add(seq, keys int64, cols []column) {
	k.items = append(k.items, item{seq: seq, keys: keys})
	k.cols = append(k.cols, cols...)
}

// seal sorts and summarises. No add after it.
func (k *keyset) seal() {
	order := make([]int, len(k.items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case k.items[a].seq > k.items[b].seq:
			return -1
		case k.items[a].seq < k.items[b].seq:
			return 1
		}
		return 0
	})
	w := len(k.columns)
	items, cols := make([]item, len(order)), make([]column, 0, len(k.cols))
	for at, i := range order {
		items[at] = k.items[i]
		cols = append(cols, k.cols[i*w:(i+1)*w]...)
	}
	k.items, k.cols = items, cols
	for level := range blockLevels {
		size := blockSize(level)
		k.levels[level] = make([]block, (len(items)+size-1)/size)
		for i := range items {
			b := &k.levels[level][i/size]
			if b.cols == nil {
				b.cols = make([]summary, w)
			}
			b.n++
			b.keys += items[i].keys
			for j := range w {
				b.cols[j].add(&cols[i*w+j])
			}
		}
	}
}

// hit counts a data file: the delete files that may touch it and their keys. file has a column for each of
// run.columns.
func (k *keyset) hit(seq int64, file []column) (files, keys int64) {
	// The applicable ones are a prefix: newer deletes come first.
	n := sort.Search(len(k.items), func(i int) bool { return k.items[i].seq <= seq })
	for i := 0; i < n; {
		b, o := k.widest(i, n, file)
		if b == nil {
			if k.itemMeets(i, file) {
				k.items[i].fanout++
				files, keys = files+1, keys+k.items[i].keys
			}
			i++
			continue
		}
		if o == all {
			b.fanout++
			files, keys = files+b.n, keys+b.keys
		}
		i += int(b.n)
	}
	return files, keys
}

// widest answers the widest block that begins at item i, ends by n, and of which all or no item meets the file; nil
// if there is none.
func (k *keyset) widest(i, n int, file []column) (*block, overlap) {
	for level := len(k.levels) - 1; level >= 0; level-- {
		if i%blockSize(level) != 0 {
			continue
		}
		b := &k.levels[level][i/blockSize(level)]
		if i+int(b.n) > n {
			continue
		}
		if o := k.blockMeets(b, file); o != some {
			return b, o
		}
	}
	return nil, some
}

func (k *keyset) blockMeets(b *block, file []column) overlap {
	out := all
	for j, at := range k.columns {
		switch b.cols[j].meets(&file[at]) {
		case none:
			return none
		case some:
			out = some
		case all:
		}
	}
	return out
}

func (k *keyset) itemMeets(i int, file []column) bool {
	w := len(k.columns)
	for j, at := range k.columns {
		if !file[at].mayMatch(&k.cols[i*w+j]) {
			return false
		}
	}
	return true
}

// fanouts answers, for each delete file, how many data files it may touch, through yield.
func (k *keyset) fanouts(yield func(keys, fanout int64)) {
	for i := range k.items {
		fanout := k.items[i].fanout
		for level := range blockLevels {
			fanout += k.levels[level][i/blockSize(level)].fanout
		}
		yield(k.items[i].keys, fanout)
	}
}

// fileColumns reads the key columns of an entry.
func fileColumns(e *icebergscan.Entry, fields []icebergscan.Field, into []column) []column {
	into = into[:0]
	for _, f := range fields {
		into = append(into, columnOf(f, e.Stats(f.ID)))
	}
	return into
}
