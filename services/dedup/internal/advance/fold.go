package advance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/supersede"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

const (
	// maxGroups is how many groups of one view lie between two neighbouring kept cuts before they are merged: a chunk's
	// bitmap is not written anew with every handful of marks.
	maxGroups = 8
	// foldAttempts is how often a pass plans anew because what it wanted to fold was written otherwise meanwhile.
	foldAttempts = 4
)

// Fold says what may be folded in a log.
type Fold struct {
	Log       state.Log
	ChunkLog2 int
	// Ends are the ends in the log of all snapshots of one version of the record, however they are kept, ascending.
	// Later versions keep some of these, and cuts that end at the last of them or above: nothing else is ever read.
	Ends []kafkapos.Offset
	// Horizon: marks whose newer event lies at or above it stay marks. At most the last of Ends.
	Horizon kafkapos.Offset
	// MinMarks is how many foldable marks a chunk has before it is written anew; MaxMarks is about how many a pass
	// looks at.
	MinMarks, MaxMarks int
}

// folding is a planned pass. It holds what it wants to publish, not the names: those are made from the version of the
// head that it commits on.
type folding struct {
	horizon kafkapos.Offset
	// recent are the touched recent segments, by name, without the folded marks; nil: nothing is left.
	recent map[string]*marks.Segment
	taken  []kafkapos.Range // the chunks whose foldable marks leave them
	chunks []*foldedChunk
	marks  int64
}

type foldedChunk struct {
	number   int64
	segments []string       // its own ones, replaced by rest
	rest     *marks.Segment // nil: nothing is left
	merged   []state.GroupRef
	groups   []viewGroup
}

type viewGroup struct {
	view  int
	group *marks.Group
}

// Fold makes groups of the marks of some chunks, from number on, and publishes them with one compare-and-set of the
// head. It answers the number of folded marks, and the chunk to go on from; 0: that was all. A pass that loses to
// another publish commits what it planned on the new head, if everything that it replaces is still there; fault.ErrConflict
// when that was never so.
func (p *Planner) Fold(ctx context.Context, f *Fold, from int64) (folded, next int64, err error) {
	for range foldAttempts {
		v, err := p.Store.View(ctx, f.Log)
		if err != nil {
			return 0, 0, fmt.Errorf("fold partition %d: %w", f.Log.Partition, err)
		}
		plan, next, err := p.planFold(ctx, f, v, from)
		if err != nil {
			return 0, 0, fmt.Errorf("fold partition %d: %w", f.Log.Partition, err)
		}
		if len(plan.chunks) == 0 {
			return 0, next, nil
		}
		done, err := p.publishFold(ctx, f, plan, v)
		if err != nil {
			return 0, 0, fmt.Errorf("fold partition %d: %w", f.Log.Partition, err)
		}
		if done {
			p.Metrics.FoldPasses.Add(ctx, 1)
			p.Metrics.FoldedMarks.Add(ctx, plan.marks)
			return plan.marks, next, nil
		}
	}
	return 0, 0, fmt.Errorf("fold partition %d: others write the same chunks: %w", f.Log.Partition, fault.ErrConflict)
}

// planFold reads chunks from number on until MaxMarks were looked at.
func (p *Planner) planFold(ctx context.Context, f *Fold, v *state.View, from int64) (*folding, int64, error) {
	plan := &folding{horizon: f.Horizon, recent: map[string]*marks.Segment{}}
	recent := map[string]*marks.Segment{}
	for _, r := range v.Root.Recent {
		seg, err := p.Store.Segment(ctx, f.Log, r.Blob)
		if err != nil {
			return nil, 0, err
		}
		recent[r.Blob] = seg
	}
	seen, next := 0, int64(0)
	for _, ref := range v.Root.Pages {
		if (ref.Number+1)*state.PageChunks <= from {
			continue
		}
		page, err := p.Store.Page(ctx, f.Log, v.Root, ref.Number)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range page.Chunks {
			if c.Number < from {
				continue
			}
			if seen >= f.MaxMarks {
				next = c.Number
				break
			}
			n, err := p.foldChunk(ctx, f, plan, recent, c)
			if err != nil {
				return nil, 0, fmt.Errorf("chunk %d: %w", c.Number, err)
			}
			seen += n
		}
		if next != 0 {
			break
		}
	}
	plan.cutRecent(f, recent)
	return plan, next, nil
}

// foldChunk adds a chunk to the plan if it has enough to fold, and answers the number of marks that it looked at.
func (p *Planner) foldChunk(
	ctx context.Context, f *Fold, plan *folding, recent map[string]*marks.Segment, c *state.Chunk,
) (seen int, err error) {
	at := kafkapos.Offset(c.Number) << f.ChunkLog2
	out := &foldedChunk{number: c.Number}
	var parts, shared []*marks.Chunk
	var own []*marks.Segment
	foldable, foldableShared := 0, 0
	for _, name := range c.Segments {
		seg, err := p.Store.Segment(ctx, f.Log, name)
		if err != nil {
			return 0, err
		}
		part := seg.Chunk(at)
		if part == nil {
			continue
		}
		seen += part.Len()
		if n := part.Count(f.Horizon); n > 0 {
			foldable += n
			parts, own, out.segments = append(parts, part), append(own, seg), append(out.segments, name)
		}
	}
	for _, seg := range recent {
		if part := seg.Chunk(at); part != nil {
			seen += part.Len()
			if n := part.Count(f.Horizon); n > 0 {
				foldableShared += n
				shared = append(shared, part)
			}
		}
	}
	// Segments that are shared are written anew for all chunks: not for the sake of a few marks.
	if foldable < f.MinMarks {
		parts, own, out.segments, foldable = nil, nil, nil, 0
	}
	if foldableShared >= f.MinMarks {
		parts, foldable = append(parts, shared...), foldable+foldableShared
		plan.take(at, recent)
	}
	if len(parts) == 0 {
		return seen, nil
	}
	if err := p.groups(ctx, f, c, out, parts, int64(foldable)); err != nil {
		return 0, err
	}
	if out.rest, err = restOf(own, f.Horizon); err != nil {
		return 0, err
	}
	plan.chunks, plan.marks = append(plan.chunks, out), plan.marks+int64(foldable)
	return seen, nil
}

// groups makes the groups of every view. want is the number of marks that must be found in them.
func (p *Planner) groups(ctx context.Context, f *Fold, c *state.Chunk, out *foldedChunk, parts []*marks.Chunk, want int64) error {
	l, err := p.Store.Layout(ctx, f.Log, c)
	if err != nil {
		return err
	}
	got := int64(0)
	for view := range state.Views {
		for _, g := range marks.Fold(l, state.RowsOf(view), f.Ends, f.Horizon, parts) {
			got += g.Len()
			lowest, highest := g.Newers()
			var beside []state.GroupRef
			for _, ref := range c.Groups {
				if ref.View == view && marks.SameInterval(f.Ends, lowest, ref.Lowest) && marks.SameInterval(f.Ends, highest, ref.Highest) {
					beside = append(beside, ref)
				}
			}
			if len(beside) >= maxGroups {
				all := []*marks.Group{g}
				for _, ref := range beside {
					was, err := p.Store.Group(ctx, f.Log, ref.Blob)
					if err != nil {
						return err
					}
					all = append(all, was)
				}
				if g, err = marks.MergeGroups(all...); err != nil {
					return fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
				}
				out.merged = append(out.merged, beside...)
			}
			out.groups = append(out.groups, viewGroup{view, g})
		}
	}
	if got != want {
		return fmt.Errorf("%d marks on rows of the views, %d were to be folded: %w", got, want, fault.ErrCorrupt)
	}
	return nil
}

// restOf answers one segment with what a chunk's own ones keep; nil if that is nothing.
func restOf(own []*marks.Segment, horizon kafkapos.Offset) (*marks.Segment, error) {
	var kept []*marks.Segment
	for _, seg := range own {
		if rest := seg.Keep(func(m supersede.Mark) bool { return m.Newer >= horizon }); rest != nil {
			kept = append(kept, rest)
		}
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return marks.Merge(kept...)
}

// take notes that the foldable marks of the chunk at start leave the recent segments.
func (n *folding) take(start kafkapos.Offset, recent map[string]*marks.Segment) {
	for name, seg := range recent {
		part := seg.Chunk(start)
		if part == nil || part.Count(n.horizon) == 0 {
			continue
		}
		n.recent[name] = seg
		n.taken = append(n.taken, part.Range())
	}
}

// cutRecent takes the folded marks out of the recent segments that have any.
func (n *folding) cutRecent(f *Fold, recent map[string]*marks.Segment) {
	taken := map[int64]bool{}
	for _, rng := range n.taken {
		taken[int64(rng.Start)>>f.ChunkLog2] = true
	}
	for name := range n.recent {
		n.recent[name] = recent[name].Keep(func(m supersede.Mark) bool {
			return m.Newer >= n.horizon || !taken[int64(m.Older)>>f.ChunkLog2]
		})
	}
}

// publishFold commits a plan on the head as it is, and after a lost compare-and-set on the next one. done is false when
// something that the plan replaces is not there any more.
func (p *Planner) publishFold(ctx context.Context, f *Fold, plan *folding, v *state.View) (done bool, err error) {
	for {
		d := newDraft(p.Store, &Spec{Log: f.Log, ChunkLog2: f.ChunkLog2}, v)
		ok, err := d.fold(ctx, plan)
		if !ok || err != nil {
			return false, err
		}
		err = d.commit(ctx)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err == nil, err
		}
		if v, err = p.Store.View(ctx, f.Log); err != nil {
			return false, err
		}
	}
}

// fold puts a plan into a draft.
func (d *draft) fold(ctx context.Context, plan *folding) (bool, error) {
	var kept []state.SegmentRef
	found := 0
	for _, r := range d.root.Recent {
		rest, touched := plan.recent[r.Blob]
		if !touched {
			kept = append(kept, r)
			continue
		}
		found++
		if rest == nil {
			continue
		}
		name, err := d.putSegment(rest)
		if err != nil {
			return false, err
		}
		kept = append(kept, state.SegmentRef{Blob: name, Marks: rest.Marks()})
	}
	if found != len(plan.recent) {
		return false, nil
	}
	d.root.Recent = kept
	for _, fc := range plan.chunks {
		if ok, err := d.foldChunk(ctx, fc); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (d *draft) foldChunk(ctx context.Context, fc *foldedChunk) (bool, error) {
	c, err := d.chunk(ctx, fc.number)
	if err != nil {
		return false, err
	}
	if c == nil || !containsAll(c.Segments, fc.segments) || !containsAll(c.Groups, fc.merged) {
		return false, nil
	}
	c.Segments = slices.DeleteFunc(c.Segments, func(name string) bool { return slices.Contains(fc.segments, name) })
	if fc.rest != nil {
		name, err := d.putSegment(fc.rest)
		if err != nil {
			return false, err
		}
		c.Segments = append(c.Segments, name)
	}
	c.Groups = slices.DeleteFunc(c.Groups, func(g state.GroupRef) bool { return slices.Contains(fc.merged, g) })
	for _, g := range fc.groups {
		b, err := g.group.Bytes()
		if err != nil {
			return false, err
		}
		name := d.put(state.FoldKind, b)
		lowest, highest := g.group.Newers()
		c.Groups = append(c.Groups, state.GroupRef{View: g.view, Blob: name, Lowest: lowest, Highest: highest})
	}
	return true, nil
}

func containsAll[T comparable](all, some []T) bool {
	for _, x := range some {
		if !slices.Contains(all, x) {
			return false
		}
	}
	return true
}
