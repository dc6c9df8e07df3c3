package keyrun

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// columns is where in a block its numbers are and how wide they are, all in bits. A column is a string of bits, a
// number in it has its most significant bit first.
type columns struct {
	n int // entries
	// hash is the width of a hash less the first one, offset that of a lowest offset less the range's start, delta
	// that of a highest less a lowest offset.
	hash, offset, delta int
}

// hashesAt is where the column of hashes begins.
const hashesAt = 8 * blockHead

func (c columns) offsetsAt() uint64 { return hashesAt + uint64(c.n*c.hash) }

// severalAt is where the column begins that has one bit per entry: its key has more than one event.
func (c columns) severalAt() uint64 { return c.offsetsAt() + uint64(c.n*c.offset) }

// deltasAt is where the column of those entries begins.
func (c columns) deltasAt() uint64 { return c.severalAt() + uint64(c.n) }

// size is the bytes of the block with so many deltas.
func (c columns) size(deltas int) int { return int(c.deltasAt()+uint64(deltas*c.delta)+7) / 8 }

// block is one block in memory; it aliases the bytes that it was parsed from.
type block struct {
	columns
	b     []byte // with slack behind the block
	first Hash
	start kafkapos.Offset // of the range
	mask  uint64          // has the leading bits that a hash can have
	last  uint64          // the leading bits of the last hash
	step  uint64          // about how much they grow from entry to entry, at least 1
}

// parseBlock verifies block number i. b has slack bytes behind the block.
func (s shape) parseBlock(i int, b []byte) (block, error) {
	if binary.LittleEndian.Uint32(b) != checksum(s.seed+uint32(i), b[crcSize:]) {
		return block{}, fmt.Errorf("block %d of a run: checksum: %w", i, fault.ErrCorrupt)
	}
	return s.openBlock(i, b)
}

// openBlock cuts a block whose checksum was verified before.
func (s shape) openBlock(i int, b []byte) (block, error) {
	bl := block{b: b[: len(b)+slack : len(b)+slack], first: Hash(b[8:]), start: s.rng.Start}
	bl.columns = columns{n: int(binary.LittleEndian.Uint16(b[4:])), hash: int(b[6]), offset: s.offsetBits(), delta: int(b[7])}
	if bl.n == 0 || bl.hash > 8*HashSize || bl.delta > 63 || bl.deltasAt() > uint64(8*len(b)) || bl.size(bl.rank(bl.n)) > len(b) {
		return block{}, fmt.Errorf("block %d of a run with %d entries in %d bytes: %w", i, bl.n, len(b), fault.ErrCorrupt)
	}
	bl.mask = ^uint64(0) << (64 - min(bl.hash, 64))
	bl.last = bl.leading(hashesAt + uint64((bl.n-1)*bl.hash))
	bl.step = max(1, bl.last/uint64(bl.n))
	return bl, nil
}

// window is the 64 bits from bit p on.
func window(b []byte, p uint64) uint64 {
	b = b[p/8 : p/8+9]
	return binary.BigEndian.Uint64(b)<<(p%8) | uint64(b[8])>>(8-p%8)
}

// number is the w bits from bit p on, at most 64.
func number(b []byte, p uint64, w int) uint64 { return window(b, p) >> (64 - w) }

// leading are the leading 64 bits, from bit p on, of a hash less the first one, and zeros behind them if it has fewer.
func (b *block) leading(p uint64) uint64 { return window(b.b, p) & b.mask }

// trailing are the bits behind those.
func (b *block) trailing(p uint64) uint64 {
	if b.hash <= 64 {
		return 0
	}
	return number(b.b, p+64, b.hash-64)
}

func (b *block) lowest(i int) kafkapos.Offset {
	return b.start + kafkapos.Offset(number(b.b, b.offsetsAt()+uint64(i*b.offset), b.offset))
}

func (b *block) highest(i int) kafkapos.Offset {
	low := b.lowest(i)
	if !b.many(i) {
		return low
	}
	return low + b.deltaAt(b.rank(i))
}

// many reports whether the key of entry i has more than one event.
func (b *block) many(i int) bool { return number(b.b, b.severalAt()+uint64(i), 1) == 1 }

// deltaAt is the highest less the lowest offset of the entry that has so many with several events before it.
func (b *block) deltaAt(rank int) kafkapos.Offset {
	return kafkapos.Offset(number(b.b, b.deltasAt()+uint64(rank*b.delta), b.delta))
}

// rank is the number of entries before i whose key has several events.
func (b *block) rank(i int) int {
	n, at := 0, b.severalAt()
	for ; i >= 64; i -= 64 {
		n += bits.OnesCount64(window(b.b, at))
		at += 64
	}
	return n + bits.OnesCount64(number(b.b, at, i))
}

// find answers the entry of h.
func (b *block) find(h Hash) (i int, ok bool) {
	if h.Compare(b.first) < 0 {
		return 0, false
	}
	lead, trail, ok := h.less(b.first).split(b.hash)
	if !ok || lead > b.last {
		return 0, false
	}
	// Hashes are spread evenly: the entry is about where its difference lies among all. That of the last one ends a
	// search upwards.
	i = min(int(lead/b.step), b.n-1)
	width := uint64(b.hash)
	p := hashesAt + uint64(i)*width
	if b.leading(p) < lead {
		for i, p = i+1, p+width; b.leading(p) < lead; i, p = i+1, p+width {
		}
	} else {
		for ; i > 0 && b.leading(p-width) >= lead; i, p = i-1, p-width {
		}
	}
	for ; i < b.n && b.leading(p) == lead; i, p = i+1, p+width {
		if b.trailing(p) == trail {
			return i, true
		}
	}
	return 0, false
}

// entry answers entry i, which has rank entries with several events before it.
func (b *block) entry(i, rank int) Entry {
	p := hashesAt + uint64(i*b.hash)
	e := Entry{Hash: join(b.leading(p), b.trailing(p), b.hash).plus(b.first), Lowest: b.lowest(i)}
	e.Highest = e.Lowest
	if b.many(i) {
		e.Highest += b.deltaAt(rank)
	}
	return e
}

// wide is a number of 80 bits.
type wide struct {
	high uint64
	low  uint16
}

func (h Hash) wide() wide { return wide{h.prefix(), binary.BigEndian.Uint16(h[8:])} }

// less is h - o, which is not above it.
func (h Hash) less(o Hash) wide {
	a, b := h.wide(), o.wide()
	d := wide{a.high - b.high, a.low - b.low}
	if a.low < b.low {
		d.high--
	}
	return d
}

// plus is the hash of d + o.
func (d wide) plus(o Hash) (h Hash) {
	w := o.wide()
	low := uint32(d.low) + uint32(w.low)
	binary.BigEndian.PutUint64(h[:], d.high+w.high+uint64(low>>16))
	binary.BigEndian.PutUint16(h[8:], uint16(low))
	return h
}

// bits is the number of bits that d needs.
func (d wide) bits() int {
	if d.high > 0 {
		return 16 + bits.Len64(d.high)
	}
	return bits.Len16(d.low)
}

// split cuts d, as a number of width bits, after the leading 64, which have zeros behind them if it has fewer. ok is
// false if d needs more.
func (d wide) split(width int) (lead, trail uint64, ok bool) {
	if d.bits() > width {
		return 0, 0, false
	}
	if width <= 64 {
		return (d.high<<16 | uint64(d.low)) << (64 - width), 0, true
	}
	s := width - 64
	return d.high<<(16-s) | uint64(d.low)>>s, uint64(d.low) & (1<<s - 1), true
}

// join is the number that split cut.
func join(lead, trail uint64, width int) wide {
	if width <= 64 {
		v := lead >> (64 - width)
		return wide{v >> 16, uint16(v)}
	}
	s := width - 64
	return wide{lead >> (16 - s), uint16(lead<<s | trail)}
}
