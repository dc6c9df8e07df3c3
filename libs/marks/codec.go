package marks

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/frazil-io/frazil/libs/bitmap"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/sealed"
)

const (
	segmentVersion = 1
	groupVersion   = 1
)

const (
	segmentMagic sealed.Magic = "FZSG"
	groupMagic   sealed.Magic = "FZGR"
)

// Bytes is the segment's persistent form (docs/FORMAT.md, "Segment").
func (s *Segment) Bytes() ([]byte, error) {
	b := sealed.Begin(segmentMagic, segmentVersion, 64)
	b = binary.AppendUvarint(b, uint64(len(s.chunks)))
	for _, c := range s.chunks {
		b = binary.AppendUvarint(b, uint64(c.start))
		b = append(b, byte(c.log2), byte(c.width))
		b = binary.AppendUvarint(b, uint64(c.lowest))
		b = binary.AppendUvarint(b, uint64(c.highest-c.lowest))
		var err error
		if b, err = bitmap.Append(b, c.olders); err != nil {
			return nil, fmt.Errorf("encode the segment's chunk %s: %w", c.Range(), err)
		}
		b = append(b, c.newers...)
	}
	return sealed.End(b), nil
}

// ParseSegment reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify. It may alias b.
func ParseSegment(b []byte) (*Segment, error) {
	body, err := sealed.Open(segmentMagic, segmentVersion, b)
	if err != nil {
		return nil, err
	}
	r := sealed.NewReader(body)
	s := &Segment{}
	for range r.Uvarint(uint64(r.Len())) {
		c := readChunk(r)
		if n := len(s.chunks); n > 0 && r.Err() == nil && c.start < s.chunks[n-1].Range().End {
			r.Fail("chunks do not ascend")
		}
		if r.Err() != nil {
			break
		}
		s.chunks = append(s.chunks, c)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse segment: %w", err)
	}
	return s, nil
}

func readChunk(r *sealed.Reader) *Chunk {
	c := &Chunk{start: kafkapos.Offset(r.Uvarint(math.MaxInt64 - 1<<layout.MaxChunkLog2)), log2: int(r.Byte()), width: int(r.Byte())}
	c.lowest = kafkapos.Offset(r.Uvarint(math.MaxInt64))
	c.highest = c.lowest + kafkapos.Offset(r.Uvarint(uint64(math.MaxInt64-c.lowest)))
	c.olders = bitmap.Read(r)
	if r.Err() != nil {
		return c
	}
	if c.log2 > layout.MaxChunkLog2 || c.start&(1<<c.log2-1) != 0 || c.width != width(uint64(c.highest-c.lowest)) ||
		c.olders.IsEmpty() || int64(c.olders.Maximum()) >= 1<<c.log2 {
		r.Fail("marks of the chunk at %d", c.start)
		return c
	}
	c.newers = r.Bytes(int(c.olders.GetCardinality()) * c.width)
	if r.Err() != nil {
		return c
	}
	for m := range c.All() {
		if m.Newer <= m.Older || m.Newer > c.highest {
			r.Fail("mark (%d, %d)", m.Older, m.Newer)
			break
		}
	}
	return c
}

// Bytes is the group's persistent form (docs/FORMAT.md, "Folded group").
func (g *Group) Bytes() ([]byte, error) {
	b := sealed.Begin(groupMagic, groupVersion, 64)
	b = binary.AppendUvarint(b, uint64(g.chunk.Start))
	b = binary.AppendUvarint(b, uint64(g.chunk.Len()))
	b = append(b, byte(g.rows))
	b = binary.AppendUvarint(b, uint64(g.lowest))
	b = binary.AppendUvarint(b, uint64(g.highest-g.lowest))
	b, err := bitmap.Append(b, g.olders)
	if err != nil {
		return nil, fmt.Errorf("encode a group of the chunk %s: %w", g.chunk, err)
	}
	return sealed.End(b), nil
}

// ParseGroup reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify. It does not alias b.
func ParseGroup(b []byte) (*Group, error) {
	body, err := sealed.Open(groupMagic, groupVersion, b)
	if err != nil {
		return nil, err
	}
	r := sealed.NewReader(body)
	g := &Group{}
	g.chunk.Start = kafkapos.Offset(r.Uvarint(math.MaxInt64 - 1<<layout.MaxChunkLog2))
	g.chunk.End = g.chunk.Start + kafkapos.Offset(r.Uvarint(1<<layout.MaxChunkLog2))
	g.rows = layout.Classes(r.Byte())
	g.lowest = kafkapos.Offset(r.Uvarint(math.MaxInt64))
	g.highest = g.lowest + kafkapos.Offset(r.Uvarint(uint64(math.MaxInt64-g.lowest)))
	g.olders = bitmap.Read(r)
	if r.Err() == nil && (g.olders.IsEmpty() || int64(g.olders.Maximum()) >= g.chunk.Len()) {
		r.Fail("group of the chunk %s", g.chunk)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse group: %w", err)
	}
	return g, nil
}
