package advance

import (
	"context"
	"math/bits"
	"slices"

	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// How segments of increments are gathered. Nothing is folded: every cut stays a filter over the result.
const (
	// fanIn is how many recent segments of about one size are merged.
	fanIn = 8
	// Recent marks are distributed over their chunks when there are so many that a chunk gets a fair number at a
	// time: below that, one segment for all chunks is cheaper to write and as cheap to read.
	minSpread      = 1 << 16
	spreadPerChunk = 256
	// maxOwn is how many segments of its own a chunk has before they are merged.
	maxOwn = 8
)

// tidySegments keeps the number of segments that a chunk's delete set is composed from small.
func (d *draft) tidySegments(ctx context.Context) error {
	total := int64(0)
	for _, r := range d.root.Recent {
		total += r.Marks
	}
	if total >= max(minSpread, spreadPerChunk*d.extent()) {
		return d.spread(ctx)
	}
	for {
		of := d.crowded()
		if of == nil {
			return nil
		}
		seg, err := d.mergeSegments(ctx, of)
		if err != nil {
			return err
		}
		name, err := d.putSegment(seg)
		if err != nil {
			return err
		}
		d.root.Recent = slices.DeleteFunc(d.root.Recent, func(r state.SegmentRef) bool { return slices.Contains(of, r.Blob) })
		d.root.Recent = append(d.root.Recent, state.SegmentRef{Blob: name, Marks: seg.Marks()})
	}
}

// crowded answers recent segments of about one size, if there are fanIn of them.
func (d *draft) crowded() []string {
	tiers := map[int][]string{}
	for _, r := range d.root.Recent {
		tier := (bits.Len64(uint64(r.Marks)) - 1) / 3
		if tiers[tier] = append(tiers[tier], r.Blob); len(tiers[tier]) == fanIn {
			return tiers[tier]
		}
	}
	return nil
}

func (d *draft) mergeSegments(ctx context.Context, names []string) (*marks.Segment, error) {
	if err := d.flush(ctx); err != nil {
		return nil, err
	}
	var segs []*marks.Segment
	for _, name := range names {
		seg, err := d.store.Segment(ctx, d.spec.Log, name)
		if err != nil {
			return nil, err
		}
		segs = append(segs, seg)
	}
	return marks.Merge(segs...)
}

// spread gives the recent marks to the chunks that they are in.
func (d *draft) spread(ctx context.Context) error {
	var names []string
	for _, r := range d.root.Recent {
		names = append(names, r.Blob)
	}
	seg, err := d.mergeSegments(ctx, names)
	if err != nil {
		return err
	}
	d.root.Recent = nil
	for _, part := range seg.Chunks() {
		if err := d.give(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) give(ctx context.Context, part *marks.Chunk) error {
	c, err := d.chunk(ctx, d.spec.number(part.Range().Start))
	if err != nil {
		return err
	}
	seg, err := marks.NewSegment(slices.Collect(part.All()), d.spec.ChunkLog2)
	if err != nil {
		return err
	}
	if len(c.Segments) < maxOwn {
		name, err := d.putSegment(seg)
		c.Segments = append(c.Segments, name)
		return err
	}
	own, err := d.mergeSegments(ctx, c.Segments)
	if err != nil {
		return err
	}
	if seg, err = marks.Merge(own, seg); err != nil {
		return err
	}
	name, err := d.putSegment(seg)
	c.Segments = []string{name}
	return err
}
