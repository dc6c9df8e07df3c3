package keyrun

import (
	"github.com/frazil-io/frazil/libs/kafkapos"
)

const (
	// maxGap is how many blocks that nobody needs are read along rather than apart from those beside them: copying
	// them costs less than another call.
	maxGap = 3
	// dense: filters are asked where there are fewer keys than dense times the blocks. With more, most blocks have one of
	// them, and are read one after the other anyway.
	dense = 2
)

// side is which offset of an entry a lookup wants.
type side uint8

const (
	lowest side = iota
	highest
)

// lookup asks runs for hashes, which ascend. It fills dst[i] for hashes[i] where dst[i] is None.
type lookup struct {
	hashes []Hash
	dst    []kafkapos.Offset
	want   side

	// needed is the blocks to read, by ascending hash.
	needed []need
	buf    []byte
}

// need is a block that hash number i may be in.
type need struct{ i, block int32 }

// in asks one run.
func (l *lookup) in(r *Run) error {
	var filters []byte
	if len(l.hashes) < dense*r.shape.blocks {
		var err error
		if filters, err = r.filters(); err != nil {
			return err
		}
	}
	l.plan(r, filters)
	vain := 0 // blocks that had no key that was looked for
	for begin := 0; begin < len(l.needed); {
		end, from, to := l.stretch(begin)
		if err := l.read(r, from, to); err != nil {
			return err
		}
		for begin < end {
			at := l.needed[begin].block
			b, err := l.block(r, from, int(at))
			if err != nil {
				return err
			}
			found := false
			for ; begin < end && l.needed[begin].block == at; begin++ {
				found = l.find(&b, l.needed[begin].i) || found
			}
			if !found {
				vain++
			}
		}
	}
	if filters == nil {
		r.filter.vain.Add(int64(vain))
	}
	return nil
}

// plan finds the blocks of a run that may have the hashes, by its filters unless that is nil.
func (l *lookup) plan(r *Run, filters []byte) {
	l.needed = l.needed[:0]
	above := 0 // blocks that begin at most at the hash, by its leading bits
	for i, h := range l.hashes {
		if l.dst[i] != None {
			continue
		}
		above = seek(r.firsts, above, h.top())
		// The hash is in the last of those; if that begins with the same leading bits, perhaps in one before.
		from := above - 1
		for from > 0 && r.firsts[from] == h.top() {
			from--
		}
		for b := max(from, 0); b < above; b++ {
			if filters == nil || h.in(filters[b*filterSize:]) {
				l.needed = append(l.needed, need{int32(i), int32(b)})
			}
		}
	}
}

// seek is the number of firsts that are at most top, which is at least from.
func seek(firsts []uint32, from int, top uint32) int {
	step := 1
	for from+step <= len(firsts) && firsts[from+step-1] <= top {
		from += step
		step *= 2
	}
	// from of them are; from+step are not.
	for lo, hi := from, min(from+step-1, len(firsts)); ; {
		if lo == hi {
			return lo
		}
		if mid := int(uint(lo+hi) / 2); firsts[mid] <= top {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
}

// stretch is the blocks that are read at once: what is needed from begin to end, which lies in blocks from to to of
// one group.
func (l *lookup) stretch(begin int) (end, from, to int) {
	from = int(l.needed[begin].block)
	to = from
	for end = begin + 1; end < len(l.needed); end++ {
		b := int(l.needed[end].block)
		if b < from || b > to+1+maxGap || b/groupBlocks != from/groupBlocks {
			break
		}
		to = max(to, b)
	}
	return end, from, to
}

// read reads blocks from to to of a group, both included.
func (l *lookup) read(r *Run, from, to int) error {
	if r.mem != nil {
		return nil
	}
	n := (to-from)*blockSize + r.shape.size(to)
	if cap(l.buf) < n+slack {
		l.buf = make([]byte, n+slack)
	}
	l.buf = l.buf[:n+slack]
	return readAt(r.src, l.buf[:n], place(from))
}

// block answers a block of those that were read from block from on.
func (l *lookup) block(r *Run, from, at int) (block, error) {
	if r.mem == nil {
		begin := (at - from) * blockSize
		return r.shape.parseBlock(at, l.buf[begin:begin+r.shape.size(at)])
	}
	raw := r.mem[place(at):][:r.shape.size(at)]
	word, bit := &r.verified[at/64], uint64(1)<<(at%64)
	if word.Load()&bit != 0 {
		return r.shape.openBlock(at, raw)
	}
	b, err := r.shape.parseBlock(at, raw)
	if err == nil {
		word.Or(bit)
	}
	return b, err
}

// find looks hash number i up in a block.
func (l *lookup) find(b *block, i int32) bool {
	k, ok := b.find(l.hashes[i])
	if !ok || l.dst[i] != None {
		return ok
	}
	if l.want == lowest {
		l.dst[i] = b.lowest(k)
	} else {
		l.dst[i] = b.highest(k)
	}
	return true
}
