package marks

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
)

// Chain is what the published segments and folded groups of a log say about one chunk, for the view with the
// given row classes. Immutable by convention; safe for concurrent use.
type Chain struct {
	Layout *layout.Layout
	Rows   layout.Classes
	// Parts are the chunk's marks in each segment, in any order.
	Parts []*Chunk
	// Groups are the chunk's folded groups of this view.
	Groups []*Group
}

// DeleteSet answers { older : newer < e }, relative to the chunk's start, whatever the class of the older
// event, except that groups hold only rows of the view. The result is the caller's. fault.ErrRetired: e needs
// what was folded away.
func (c Chain) DeleteSet(e kafkapos.Offset) (*roaring.Bitmap, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	set := roaring.New()
	for _, p := range c.Parts {
		p.orInto(set, e)
	}
	for _, g := range c.Groups {
		olders, err := g.Below(e)
		if err != nil {
			return nil, err
		}
		set.Or(olders)
	}
	return set, nil
}

// Positions answers the deleted row positions of the view's file over the given range at e: the content of
// its delete file. fault.ErrRetired as for DeleteSet. The result is the caller's.
func (c Chain) Positions(file kafkapos.Range, e kafkapos.Offset) (*roaring.Bitmap, error) {
	set, err := c.DeleteSet(e)
	if err != nil {
		return nil, err
	}
	return c.Layout.Positions(c.Rows, file, set), nil
}

// Tally counts the marks of the file over the given range that are in force at a cut that ends at cutEnd. It
// composes the chunk: a Ledger knows the same without. Tally.Newest, and so E, is over the whole chunk.
func (c Chain) Tally(file kafkapos.Range, cutEnd kafkapos.Offset) (Tally, error) {
	positions, err := c.Positions(file, cutEnd)
	if err != nil {
		return Tally{}, err
	}
	t := Tally{Marks: int64(positions.GetCardinality()), Containers: Cardinalities(positions), Newest: None}
	rows := c.Layout.Set(c.Rows)
	for _, p := range c.Parts {
		if n := p.newest(rows, cutEnd); n > t.Newest {
			t.Newest = n
		}
	}
	for _, g := range c.Groups {
		if g.highest < cutEnd {
			t.Newest = max(t.Newest, g.highest)
		}
	}
	return t, nil
}

// newest is the highest newer offset below cutEnd of an older event that rows holds; None if there is none.
func (c *Chunk) newest(rows *roaring.Bitmap, cutEnd kafkapos.Offset) kafkapos.Offset {
	newest := None
	if c.lowest >= cutEnd {
		return newest
	}
	for m := range c.All() {
		if m.Newer < cutEnd && m.Newer > newest && rows.Contains(uint32(m.Older-c.start)) {
			newest = m.Newer
		}
	}
	return newest
}

func (c Chain) check() error {
	at := c.Layout.ChunkStart()
	for _, p := range c.Parts {
		if p.start != at {
			return fmt.Errorf("marks of chunk %s with the layout of the chunk at %d: %w", p.Range(), at, fault.ErrInvalid)
		}
	}
	for _, g := range c.Groups {
		if g.chunk.Start != at || g.rows != c.Rows {
			return fmt.Errorf("group of chunk %s with the layout of the chunk at %d: %w", g.chunk, at, fault.ErrInvalid)
		}
	}
	return nil
}

// Cardinalities answers the number of positions in each [i<<16, (i+1)<<16), up to the last that has one.
func Cardinalities(positions *roaring.Bitmap) []uint32 {
	if positions.IsEmpty() {
		return nil
	}
	out := make([]uint32, positions.Maximum()>>16+1)
	for i := range out {
		from := uint64(i) << 16
		out[i] = uint32(positions.CardinalityInRange(from, from+1<<16))
	}
	return out
}
