// Package marks is the chain: immutable segments of marks (older, newer), and what a cut makes of them. The
// delete set of a chunk at E is { older : newer < E }, so that every cut is a filter over the same segments.
package marks

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
)

// Chunk is the marks of one segment whose older events lie in one chunk. Immutable; safe for concurrent use.
type Chunk struct {
	start  kafkapos.Offset
	log2   int
	olders *roaring.Bitmap // relative to start; at least one
	// newers are the newer offsets in the order of the olders, each less lowest, little endian, width bytes.
	newers          []byte
	width           int
	lowest, highest kafkapos.Offset // of the newer offsets
}

// Range is the chunk.
func (c *Chunk) Range() kafkapos.Range {
	return kafkapos.Range{Start: c.start, End: c.start + 1<<c.log2}
}

// Len is the number of marks, at least 1.
func (c *Chunk) Len() int { return len(c.newers) / c.width }

// Olders is the superseded offsets, relative to the chunk's start. The caller may not change it.
func (c *Chunk) Olders() *roaring.Bitmap { return c.olders }

// Newers answers the lowest and the highest newer offset.
func (c *Chunk) Newers() (lowest, highest kafkapos.Offset) { return c.lowest, c.highest }

// All answers the marks by ascending older offset.
func (c *Chunk) All() iter.Seq[supersede.Mark] {
	return func(yield func(supersede.Mark) bool) {
		it := c.olders.Iterator()
		for i := 0; it.HasNext(); i++ {
			if !yield(supersede.Mark{Older: c.start + kafkapos.Offset(it.Next()), Newer: c.newer(i)}) {
				return
			}
		}
	}
}

// newer is the newer offset of the i-th older one.
func (c *Chunk) newer(i int) kafkapos.Offset {
	v := kafkapos.Offset(0)
	for k := range c.width {
		v |= kafkapos.Offset(c.newers[i*c.width+k]) << (8 * k)
	}
	return c.lowest + v
}

// orInto adds the olders whose newer offset is below e to set.
func (c *Chunk) orInto(set *roaring.Bitmap, e kafkapos.Offset) {
	switch {
	case e <= c.lowest:
	case e > c.highest:
		set.Or(c.olders)
	default:
		buf := make([]uint32, 0, 1024)
		it := c.olders.Iterator()
		for i := 0; it.HasNext(); i++ {
			rel := it.Next()
			if c.newer(i) >= e {
				continue
			}
			if buf = append(buf, rel); len(buf) == cap(buf) {
				set.AddMany(buf)
				buf = buf[:0]
			}
		}
		set.AddMany(buf)
	}
}

// newChunk packs marks of one chunk, by ascending older offset, at least one.
func newChunk(start kafkapos.Offset, log2 int, ms []supersede.Mark) *Chunk {
	c := &Chunk{start: start, log2: log2, olders: roaring.New(), lowest: ms[0].Newer, highest: ms[0].Newer}
	olders := make([]uint32, len(ms))
	for i, m := range ms {
		olders[i] = uint32(m.Older - start)
		c.lowest, c.highest = min(c.lowest, m.Newer), max(c.highest, m.Newer)
	}
	c.olders.AddMany(olders)
	c.olders.RunOptimize()
	c.width = width(uint64(c.highest - c.lowest))
	c.newers = make([]byte, 0, len(ms)*c.width)
	for _, m := range ms {
		v := uint64(m.Newer - c.lowest)
		for k := range c.width {
			c.newers = append(c.newers, byte(v>>(8*k)))
		}
	}
	return c
}

// width is the number of bytes that v needs, at least 1.
func width(v uint64) int {
	n := 1
	for ; v > 0xff; v >>= 8 {
		n++
	}
	return n
}

// Segment is the marks of one walked chunk or of one increment. Immutable; safe for concurrent use.
type Segment struct {
	chunks []*Chunk // by ascending start
}

// NewSegment groups marks, in any order, by chunks of 2^chunkLog2 offsets. ms is sorted in place.
// fault.ErrInvalid: an event is superseded twice, or by an older one.
func NewSegment(ms []supersede.Mark, chunkLog2 int) (*Segment, error) {
	if chunkLog2 < 0 || chunkLog2 > layout.MaxChunkLog2 {
		return nil, fmt.Errorf("segment of chunks of 2^%d: %w", chunkLog2, fault.ErrInvalid)
	}
	slices.SortFunc(ms, func(a, b supersede.Mark) int { return cmp.Compare(a.Older, b.Older) })
	for i, m := range ms {
		if m.Older < 0 || m.Newer <= m.Older || i > 0 && m.Older == ms[i-1].Older {
			return nil, fmt.Errorf("mark (%d, %d): %w", m.Older, m.Newer, fault.ErrInvalid)
		}
	}
	s := &Segment{}
	for len(ms) > 0 {
		chunk := layout.Chunk(ms[0].Older, chunkLog2)
		n, _ := slices.BinarySearchFunc(ms, chunk.End, func(m supersede.Mark, end kafkapos.Offset) int { return cmp.Compare(m.Older, end) })
		s.chunks = append(s.chunks, newChunk(chunk.Start, chunkLog2, ms[:n]))
		ms = ms[n:]
	}
	return s, nil
}

// Chunks answers the chunks that the segment has marks in, ascending. The caller may not change the slice.
func (s *Segment) Chunks() []*Chunk { return s.chunks }

// Chunk answers the marks in the chunk that begins at start, nil if there are none.
func (s *Segment) Chunk(start kafkapos.Offset) *Chunk {
	i, ok := slices.BinarySearchFunc(s.chunks, start, func(c *Chunk, start kafkapos.Offset) int { return cmp.Compare(c.start, start) })
	if !ok {
		return nil
	}
	return s.chunks[i]
}

// Marks is the number of marks.
func (s *Segment) Marks() int64 {
	n := int64(0)
	for _, c := range s.chunks {
		n += int64(c.Len())
	}
	return n
}

// Merge answers one segment with the marks of all the given ones: nothing is folded, every cut is a filter
// over it as over them. fault.ErrInvalid: an event is superseded twice.
func Merge(segments ...*Segment) (*Segment, error) {
	byChunk := map[kafkapos.Offset][]*Chunk{}
	for _, s := range segments {
		for _, c := range s.chunks {
			byChunk[c.start] = append(byChunk[c.start], c)
		}
	}
	out := &Segment{}
	for start, parts := range byChunk {
		c, err := mergeChunks(parts)
		if err != nil {
			return nil, fmt.Errorf("merge segments in the chunk at %d: %w", start, err)
		}
		out.chunks = append(out.chunks, c)
	}
	slices.SortFunc(out.chunks, func(a, b *Chunk) int { return cmp.Compare(a.start, b.start) })
	return out, nil
}

func mergeChunks(parts []*Chunk) (*Chunk, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	var ms []supersede.Mark
	for _, p := range parts {
		if p.log2 != parts[0].log2 {
			return nil, fmt.Errorf("sizes 2^%d and 2^%d: %w", p.log2, parts[0].log2, fault.ErrInvalid)
		}
		ms = slices.AppendSeq(ms, p.All())
	}
	one, err := NewSegment(ms, parts[0].log2)
	if err != nil {
		return nil, err
	}
	return one.chunks[0], nil
}
