package layout

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// MaxChunkLog2 bounds the size of a chunk, so that an offset's distance from the chunk's start fits a bitmap.
const MaxChunkLog2 = 31

// classes is the number of classes; Gap is the absence of all others.
const classes = int(Truncate) + 1

// Classes is a set of classes.
type Classes uint8

// The row classes of the views.
const (
	// CurrentRows are the rows of the current view.
	CurrentRows = Classes(1 << Row)
	// DeletedKeyRows are the rows of the deleted-keys view.
	DeletedKeyRows = Classes(1 << Delete)
	// ErrorRows are the rows of the errors view.
	ErrorRows = Classes(1 << Bad)
	// ChangeRows are the rows of the changes view.
	ChangeRows = Classes(1<<Row | 1<<Delete | 1<<Truncate)
)

// Has reports whether the set holds c.
func (s Classes) Has(c Class) bool { return s>>c&1 == 1 }

// Layout is the frozen classes of the known offsets of one chunk. Immutable; safe for concurrent use.
type Layout struct {
	chunk kafkapos.Offset // start of the chunk: the bitmaps are relative to it
	rng   kafkapos.Range
	// sets by class; Gap has none. Disjoint, and within rng.
	sets [classes]*roaring.Bitmap
}

// ChunkStart is the first offset of the chunk, to which bitmaps of offsets are relative.
func (l *Layout) ChunkStart() kafkapos.Offset { return l.chunk }

// Range is the offsets whose classes are known.
func (l *Layout) Range() kafkapos.Range { return l.rng }

// Class answers what off is. ok is false outside of Range.
func (l *Layout) Class(off kafkapos.Offset) (c Class, ok bool) {
	if !l.rng.Contains(off) {
		return Gap, false
	}
	rel := l.rel(off)
	for c := Row; int(c) < classes; c++ {
		if l.sets[c].Contains(rel) {
			return c, true
		}
	}
	return Gap, true
}

// Set answers the offsets of the given classes, relative to ChunkStart. The caller may not change it.
func (l *Layout) Set(of Classes) *roaring.Bitmap {
	var out *roaring.Bitmap
	owned := false
	for c := Row; int(c) < classes; c++ {
		switch {
		case !of.Has(c) || l.sets[c].IsEmpty():
		case out == nil:
			out = l.sets[c]
		case owned:
			out.Or(l.sets[c])
		default:
			out, owned = roaring.Or(out, l.sets[c]), true
		}
	}
	if out == nil {
		return roaring.New()
	}
	return out
}

// Rows is the number of rows that the current view has in rng.
func (l *Layout) Rows(rng kafkapos.Range) int64 { return l.Count(CurrentRows, rng) }

// Count is the number of offsets of the given classes in rng.
func (l *Layout) Count(of Classes, rng kafkapos.Range) int64 {
	rng = rng.Intersect(l.rng)
	if rng.Empty() {
		return 0
	}
	from, to := uint64(l.rel(rng.Start)), uint64(l.rel(rng.End))
	n := uint64(0)
	for c := Row; int(c) < classes; c++ {
		if of.Has(c) {
			n += l.sets[c].CardinalityInRange(from, to)
		}
	}
	return int64(n)
}

// Position answers the position of off in the current view's file that begins at fileStart, which lies in
// this chunk. ok is false when off is no row of it.
func (l *Layout) Position(fileStart, off kafkapos.Offset) (pos kafkapos.Position, ok bool) {
	if off < fileStart || !l.rng.Contains(off) || !l.sets[Row].Contains(l.rel(off)) {
		return 0, false
	}
	return kafkapos.Position(l.Rows(kafkapos.Range{Start: fileStart, End: off})), true
}

// Offset answers the offset of the row at pos in the current view's file that begins at fileStart: the
// inverse of Position. ok is false when there is no such row.
func (l *Layout) Offset(fileStart kafkapos.Offset, pos kafkapos.Position) (off kafkapos.Offset, ok bool) {
	below := l.Rows(kafkapos.Range{Start: l.rng.Start, End: fileStart})
	at := below + int64(pos)
	if pos < 0 || at >= int64(l.sets[Row].GetCardinality()) {
		return 0, false
	}
	rel, err := l.sets[Row].Select(uint32(at))
	if err != nil {
		return 0, false
	}
	return l.chunk + kafkapos.Offset(rel), true
}

// Positions answers the row positions in the file over the given range of the offsets in set, which are
// relative to ChunkStart. Offsets outside of the file, or of other classes, have no position. The result is
// the caller's.
func (l *Layout) Positions(of Classes, file kafkapos.Range, set *roaring.Bitmap) *roaring.Bitmap {
	out := roaring.New()
	file = file.Intersect(l.rng)
	if file.Empty() || set.IsEmpty() {
		return out
	}
	rows := l.Set(of)
	from, to := l.rel(file.Start), l.rel(file.End)
	before := uint64(0)
	if from > 0 {
		before = rows.Rank(from - 1)
	}
	if set.GetCardinality() < rows.GetCardinality()/mergeFactor {
		it := set.Iterator()
		it.AdvanceIfNeeded(from)
		for it.HasNext() {
			rel := it.Next()
			if rel >= to {
				break
			}
			if rows.Contains(rel) {
				out.Add(uint32(rows.Rank(rel) - 1 - before))
			}
		}
		return out
	}
	mergePositions(rows, set, from, to, out)
	return out
}

// mergeFactor is about how many steps of a merge cost as much as the rank of one offset.
const mergeFactor = 256

// mergePositions adds to out the ranks, among the rows from from on, of the rows in [from, to) that set holds.
func mergePositions(rows, set *roaring.Bitmap, from, to uint32, out *roaring.Bitmap) {
	r, s := rows.Iterator(), set.Iterator()
	r.AdvanceIfNeeded(from)
	s.AdvanceIfNeeded(from)
	buf := make([]uint32, 0, 4096)
	for pos := uint32(0); r.HasNext() && s.HasNext(); pos++ {
		row := r.Next()
		if row >= to {
			break
		}
		for s.HasNext() && s.PeekNext() < row {
			s.Next()
		}
		if s.HasNext() && s.PeekNext() == row {
			if buf = append(buf, pos); len(buf) == cap(buf) {
				out.AddMany(buf)
				buf = buf[:0]
			}
		}
	}
	out.AddMany(buf)
}

// Extend answers the layout of an open chunk that has grown: l, then inc, which begins where l ends. What l
// says is unchanged in it. fault.ErrConflict: inc does not continue l.
func (l *Layout) Extend(inc *Layout) (*Layout, error) {
	if inc.chunk != l.chunk || inc.rng.Start != l.rng.End {
		return nil, fmt.Errorf("extend layout %s by %s: %w", l.rng, inc.rng, fault.ErrConflict)
	}
	out := &Layout{chunk: l.chunk, rng: kafkapos.Range{Start: l.rng.Start, End: inc.rng.End}}
	for c := Row; int(c) < classes; c++ {
		out.sets[c] = roaring.Or(l.sets[c], inc.sets[c])
	}
	return out, nil
}

// Events is the number of offsets that hold an event of a key: rows and deletes.
func (l *Layout) Events() int64 {
	return int64(l.sets[Row].GetCardinality() + l.sets[Delete].GetCardinality())
}

func (l *Layout) rel(off kafkapos.Offset) uint32 { return uint32(off - l.chunk) }
