package marks

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
)

// Fold folds the marks of parts, which are of one chunk, whose older event is a row of the view with the given row
// classes and whose newer offset lies below horizon: into one group per interval between neighbouring ends, by
// ascending newer offsets. ends are those of all cuts that are kept or can still be taken below the horizon, ascending.
// At each of them, and at every end from horizon on, the groups say what the marks said.
func Fold(l *layout.Layout, rows layout.Classes, ends []kafkapos.Offset, horizon kafkapos.Offset, parts []*Chunk) []*Group {
	set := l.Set(rows)
	by := map[int]*Group{}
	for _, p := range parts {
		for m := range p.All() {
			rel := uint32(m.Older - p.start)
			if m.Newer >= horizon || !set.Contains(rel) {
				continue
			}
			at := interval(ends, m.Newer)
			g := by[at]
			if g == nil {
				g = &Group{chunk: p.Range(), rows: rows, olders: roaring.New(), lowest: m.Newer, highest: m.Newer}
				by[at] = g
			}
			g.lowest, g.highest = min(g.lowest, m.Newer), max(g.highest, m.Newer)
			g.olders.Add(rel)
		}
	}
	var out []*Group
	for _, g := range by {
		g.olders.RunOptimize()
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *Group) int { return int(min(max(a.lowest-b.lowest, -1), 1)) })
	return out
}

// SameInterval reports whether no end tells marks with these two newer offsets apart. ends ascend.
func SameInterval(ends []kafkapos.Offset, a, b kafkapos.Offset) bool {
	return interval(ends, a) == interval(ends, b)
}

// MergeGroups answers one group in place of several that no kept cut tells apart. fault.ErrInvalid: they are not of one
// chunk and view, or have a mark twice.
func MergeGroups(groups ...*Group) (*Group, error) {
	if len(groups) == 0 {
		return nil, fmt.Errorf("merge no groups: %w", fault.ErrInvalid)
	}
	out := *groups[0]
	out.olders = out.olders.Clone()
	for _, g := range groups[1:] {
		if g.chunk != out.chunk || g.rows != out.rows || out.olders.Intersects(g.olders) {
			return nil, fmt.Errorf("merge groups of the chunks %s and %s: %w", out.chunk, g.chunk, fault.ErrInvalid)
		}
		out.olders.Or(g.olders)
		out.lowest, out.highest = min(out.lowest, g.lowest), max(out.highest, g.highest)
	}
	out.olders.RunOptimize()
	return &out, nil
}

// Count answers the number of marks whose newer offset lies below the given one.
func (c *Chunk) Count(below kafkapos.Offset) int {
	switch {
	case below <= c.lowest:
		return 0
	case below > c.highest:
		return c.Len()
	}
	n := 0
	for i := range c.Len() {
		if c.newer(i) < below {
			n++
		}
	}
	return n
}

// Keep answers the segment with those marks only that keep accepts; nil if there is none. Chunks that lose no mark are
// shared.
func (s *Segment) Keep(keep func(supersede.Mark) bool) *Segment {
	out := &Segment{}
	for _, c := range s.chunks {
		var ms []supersede.Mark
		for m := range c.All() {
			if keep(m) {
				ms = append(ms, m)
			}
		}
		switch len(ms) {
		case 0:
		case c.Len():
			out.chunks = append(out.chunks, c)
		default:
			out.chunks = append(out.chunks, newChunk(c.start, c.log2, ms))
		}
	}
	if len(out.chunks) == 0 {
		return nil
	}
	return out
}
