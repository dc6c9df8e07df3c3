package layout

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Builder collects the classes of a scanned range, which may meet several chunks. An offset that is not added
// is a gap. Not safe for concurrent use.
type Builder struct {
	rng  kafkapos.Range
	log2 int
	sets map[kafkapos.Offset]*[classes]*roaring.Bitmap // by the chunk's start
	// The bitmaps of the chunk of the last offset, and what waits to be added to them: events come by the
	// million and in order.
	at      kafkapos.Offset
	pending [classes][]uint32
}

// pendingEvents is how many offsets of a class are added to a bitmap at a time.
const pendingEvents = 4096

// NewBuilder starts the layouts of the chunks of 2^chunkLog2 offsets that rng meets.
func NewBuilder(rng kafkapos.Range, chunkLog2 int) (*Builder, error) {
	if rng.Empty() || rng.Start < 0 || chunkLog2 < 0 || chunkLog2 > MaxChunkLog2 {
		return nil, fmt.Errorf("lay out %s in chunks of 2^%d: %w", rng, chunkLog2, fault.ErrInvalid)
	}
	b := &Builder{rng: rng, log2: chunkLog2, sets: map[kafkapos.Offset]*[classes]*roaring.Bitmap{}}
	b.at = Chunk(rng.Start, chunkLog2).Start
	return b, nil
}

// Add says what off is. Order does not matter; an offset may be added once. fault.ErrInvalid: off is outside
// of the range, or there is no such class. An offset with two classes is found by Layouts.
func (b *Builder) Add(off kafkapos.Offset, c Class) error {
	if !b.rng.Contains(off) || int(c) >= classes {
		return fmt.Errorf("lay out offset %d as class %d in %s: %w", off, c, b.rng, fault.ErrInvalid)
	}
	if c == Gap {
		return nil
	}
	if off < b.at || off >= b.at+1<<b.log2 {
		b.flush()
		b.at = Chunk(off, b.log2).Start
	}
	b.pending[c] = append(b.pending[c], uint32(off-b.at))
	if len(b.pending[c]) >= pendingEvents {
		b.flush()
	}
	return nil
}

// AddNonRow says that the offsets of rng are NonRow.
func (b *Builder) AddNonRow(rng kafkapos.Range) error {
	if rng.Empty() {
		return nil
	}
	if rng.Intersect(b.rng) != rng {
		return fmt.Errorf("lay out %s as non-rows in %s: %w", rng, b.rng, fault.ErrInvalid)
	}
	for chunk := range Chunks(rng, b.log2) {
		part := rng.Intersect(chunk)
		b.chunk(chunk.Start)[NonRow].AddRange(uint64(part.Start-chunk.Start), uint64(part.End-chunk.Start))
	}
	return nil
}

// Layouts answers one layout per chunk that the range meets, ascending, each over the part of the range that
// lies in its chunk. fault.ErrInvalid: an offset was given two classes. The builder is used up.
func (b *Builder) Layouts() ([]*Layout, error) {
	b.flush()
	var out []*Layout
	for chunk := range Chunks(b.rng, b.log2) {
		l := &Layout{chunk: chunk.Start, rng: chunk.Intersect(b.rng), sets: *b.chunk(chunk.Start)}
		for _, s := range l.sets[Row:] {
			s.RunOptimize()
		}
		if err := l.checkDisjoint(); err != nil {
			return nil, fmt.Errorf("lay out %s: %w: %w", l.rng, err, fault.ErrInvalid)
		}
		out = append(out, l)
	}
	b.sets = nil
	return out, nil
}

func (b *Builder) flush() {
	for c := range b.pending {
		if len(b.pending[c]) > 0 {
			b.chunk(b.at)[c].AddMany(b.pending[c])
			b.pending[c] = b.pending[c][:0]
		}
	}
}

func (b *Builder) chunk(start kafkapos.Offset) *[classes]*roaring.Bitmap {
	s, ok := b.sets[start]
	if !ok {
		s = new([classes]*roaring.Bitmap)
		for c := range s {
			s[c] = roaring.New()
		}
		b.sets[start] = s
	}
	return s
}

// checkDisjoint answers an error that names an offset with two classes.
func (l *Layout) checkDisjoint() error {
	all := l.sets[Row].Clone()
	for _, s := range l.sets[Delete:] {
		if all.Intersects(s) {
			return fmt.Errorf("offset %d has two classes", l.chunk+kafkapos.Offset(roaring.And(all, s).Minimum()))
		}
		all.Or(s)
	}
	return nil
}
