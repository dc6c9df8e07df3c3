package marks

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/sealed"
)

// None is the newest mark where there is none.
const None kafkapos.Offset = -1

// Tally counts the marks of a file that are in force at a cut and whose older event is a row of one view.
type Tally struct {
	// Marks is the cardinality of the file's delete set.
	Marks int64
	// Newest is the highest newer offset in force in the whole chunk, also outside of the file; None if there
	// is none.
	Newest kafkapos.Offset
	// Containers[i] is the marks on row positions [i<<16, (i+1)<<16) of the file. Its last element is not 0,
	// so that it may be shorter than the file has positions.
	Containers []uint32
}

// E is the number in the name of the delete file: the delete set is { older : newer < E }. 0 = no marks.
func (t Tally) E() kafkapos.Offset { return t.Newest + 1 }

// Ledger is the counts of one chunk and one view, kept as marks are published, so that no manifest has to
// compose a bitmap. It knows the counts at the ends of the cuts for which it was kept. The zero value is the
// ledger of a chunk without marks. Immutable; safe for concurrent use.
type Ledger struct {
	pieces []piece // ascending by lowest
}

// piece is the counts of the marks of one interval between the ends of neighbouring cuts. It counts as a whole
// at an end above its newest mark, not at all at one up to its lowest.
type piece struct {
	lowest kafkapos.Offset // of the newer offsets
	Tally
}

// Extend answers the ledger with the marks of one more segment. l is the chunk's layout, which may have grown
// at its end since; positions count from its first offset. ends are the ends of the cuts that are kept, in any
// order: the counts at these, and at every end above all marks, stay exact if they were. Counts at other ends
// may be given up.
func (g Ledger) Extend(l *layout.Layout, rows layout.Classes, part *Chunk, ends []kafkapos.Offset) (Ledger, error) {
	if part.start != l.ChunkStart() {
		return Ledger{}, fmt.Errorf("count marks of chunk %s with the layout of the chunk at %d: %w", part.Range(), l.ChunkStart(), fault.ErrInvalid)
	}
	ends = slices.Clone(ends)
	slices.Sort(ends)
	ends = slices.Compact(ends)
	added := map[int]*piece{}
	set := l.Set(rows)
	positions := l.Positions(rows, l.Range(), part.olders).Iterator()
	for m := range part.All() {
		if !set.Contains(uint32(m.Older - part.start)) {
			continue
		}
		at := interval(ends, m.Newer)
		p := added[at]
		if p == nil {
			p = &piece{lowest: m.Newer, Tally: Tally{Newest: m.Newer}}
			added[at] = p
		}
		p.add(m.Newer, positions.Next())
	}
	pieces := slices.Clone(g.pieces)
	for _, p := range added {
		pieces = append(pieces, *p)
	}
	slices.SortFunc(pieces, byLowest)
	return Ledger{pieces: join(pieces, ends)}, nil
}

// NewLedger counts the marks of a chunk anew.
func NewLedger(c Chain, ends []kafkapos.Offset) (Ledger, error) {
	if err := c.check(); err != nil {
		return Ledger{}, err
	}
	var g Ledger
	for _, group := range c.Groups {
		positions := c.Layout.Positions(c.Rows, c.Layout.Range(), group.olders)
		t := Tally{Marks: int64(positions.GetCardinality()), Newest: group.highest, Containers: Cardinalities(positions)}
		g.pieces = append(g.pieces, piece{lowest: group.lowest, Tally: t})
	}
	slices.SortFunc(g.pieces, byLowest)
	for _, p := range c.Parts {
		var err error
		if g, err = g.Extend(c.Layout, c.Rows, p, ends); err != nil {
			return Ledger{}, err
		}
	}
	return g, nil
}

func byLowest(a, b piece) int {
	return cmp.Or(cmp.Compare(a.lowest, b.lowest), cmp.Compare(a.Newest, b.Newest))
}

// interval numbers the intervals between ends: a mark with this newer offset counts from the end of that
// number on.
func interval(ends []kafkapos.Offset, newer kafkapos.Offset) int {
	i, found := slices.BinarySearch(ends, newer)
	if found {
		i++
	}
	return i
}

// join adds up the pieces that no end tells apart.
func join(pieces []piece, ends []kafkapos.Offset) []piece {
	var out []piece
	within := map[int]int{} // interval -> index in out
	for _, p := range pieces {
		at := interval(ends, p.lowest)
		if interval(ends, p.Newest) != at {
			out = append(out, p)
			continue
		}
		i, ok := within[at]
		if !ok {
			within[at] = len(out)
			out = append(out, p)
			continue
		}
		out[i] = piece{lowest: min(out[i].lowest, p.lowest), Tally: out[i].plus(p.Tally)}
	}
	return out
}

// add counts one mark on a row position.
func (p *piece) add(newer kafkapos.Offset, pos uint32) {
	p.Marks++
	p.lowest, p.Newest = min(p.lowest, newer), max(p.Newest, newer)
	at := int(pos >> 16)
	for len(p.Containers) <= at {
		p.Containers = append(p.Containers, 0)
	}
	p.Containers[at]++
}

func (t Tally) plus(o Tally) Tally {
	long, short := t.Containers, o.Containers
	if len(long) < len(short) {
		long, short = short, long
	}
	sum := slices.Clone(long)
	for i, n := range short {
		sum[i] += n
	}
	return Tally{Marks: t.Marks + o.Marks, Newest: max(t.Newest, o.Newest), Containers: sum}
}

// At answers the counts, at a cut that ends at cutEnd, of a file that begins at the layout's first offset or
// below. ok is false when the ledger was not kept for that end: Chain.Tally counts then.
func (g Ledger) At(cutEnd kafkapos.Offset) (t Tally, ok bool) {
	t.Newest = None
	for _, p := range g.pieces {
		switch {
		case p.lowest >= cutEnd:
		case p.Newest >= cutEnd:
			return Tally{Newest: None}, false
		default:
			t.Marks += p.Marks
			t.Newest = max(t.Newest, p.Newest)
			t.Containers = append(t.Containers, make([]uint32, max(0, len(p.Containers)-len(t.Containers)))...)
			for i, n := range p.Containers {
				t.Containers[i] += n
			}
		}
	}
	return t, true
}

// AppendBinary appends the ledger's form inside of another persistent format (docs/FORMAT.md, "Ledger").
func (g Ledger) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(g.pieces)))
	for _, p := range g.pieces {
		b = binary.AppendUvarint(b, uint64(p.lowest))
		b = binary.AppendUvarint(b, uint64(p.Newest-p.lowest))
		b = binary.AppendUvarint(b, uint64(len(p.Containers)))
		for _, n := range p.Containers {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b, nil
}

// maxContainers is the number of containers in the largest chunk.
const maxContainers = 1 << (layout.MaxChunkLog2 - 16)

// ReadLedger takes a ledger off the body of another format. Errors stick to r.
func ReadLedger(r *sealed.Reader) Ledger {
	var g Ledger
	for range r.Uvarint(uint64(r.Len())) {
		p := piece{lowest: kafkapos.Offset(r.Uvarint(math.MaxInt64))}
		p.Newest = p.lowest + kafkapos.Offset(r.Uvarint(uint64(math.MaxInt64-p.lowest)))
		n := r.Uvarint(min(maxContainers, uint64(r.Len())))
		p.Containers = make([]uint32, n)
		for i := range p.Containers {
			p.Containers[i] = uint32(r.Uvarint(1 << 16))
			p.Marks += int64(p.Containers[i])
		}
		if p.Marks == 0 || p.Containers[n-1] == 0 {
			r.Fail("ledger: a piece without marks")
		}
		if r.Err() != nil {
			return Ledger{}
		}
		g.pieces = append(g.pieces, p)
	}
	return g
}
