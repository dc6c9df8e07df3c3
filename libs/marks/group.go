package marks

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
)

// Group is folded marks of one chunk and one view: between neighbouring kept cuts only the bitmap and the
// lowest and highest newer offset are kept. Immutable; safe for concurrent use.
type Group struct {
	chunk           kafkapos.Range
	rows            layout.Classes // the view's row classes: every older event is of one of them
	olders          *roaring.Bitmap
	lowest, highest kafkapos.Offset
}

// Range is the chunk.
func (g *Group) Range() kafkapos.Range { return g.chunk }

// Rows is the row classes of the view that the group is for.
func (g *Group) Rows() layout.Classes { return g.rows }

// Len is the number of marks, at least 1.
func (g *Group) Len() int64 { return int64(g.olders.GetCardinality()) }

// Newers answers the lowest and the highest newer offset.
func (g *Group) Newers() (lowest, highest kafkapos.Offset) { return g.lowest, g.highest }

// Below answers the superseded offsets, relative to the chunk's start, at e: all of them when every newer
// offset is below e, none when none is. fault.ErrRetired: e lies between them, so that what it needs was
// folded away. The caller may not change the bitmap.
func (g *Group) Below(e kafkapos.Offset) (*roaring.Bitmap, error) {
	switch {
	case e > g.highest:
		return g.olders, nil
	case e <= g.lowest:
		return roaring.New(), nil
	}
	return nil, fmt.Errorf("marks of chunk %s at %d: folded from %d to %d: %w", g.chunk, e, g.lowest, g.highest, fault.ErrRetired)
}
