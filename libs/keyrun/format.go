package keyrun

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

// The file (docs/FORMAT.md, "Run"): a head; 2^blockBits blocks, one per value of the leading hash bits; the
// index of the blocks' places; a tail. Everything is little endian and under a CRC-32C.
const (
	version    = 1
	headSize   = 32
	tailSize   = 24
	crcSize    = 4
	indexEntry = 8

	// perBucket is about how many entries share a bucket of a block's directory, so that a lookup compares
	// few of them.
	perBucket = 16
	// maxBucketBits makes a block of about 1024 entries: what one lookup reads from a file.
	maxBucketBits = 6
	maxBlockBits  = 26

	headMagic = "FZKR"
	tailMagic = "FZKr"
)

// shape is what the head fixes about a file.
type shape struct {
	rng kafkapos.Range
	// blockBits leading bits of a hash choose its block, the next bucketBits its bucket.
	blockBits, bucketBits int
	// offsetWidth is the bytes of an offset relative to the range's start.
	offsetWidth int
}

func shapeFor(rng kafkapos.Range, entries int64) shape {
	t := max(0, bits.Len64(uint64(entries)/perBucket)-1)
	s := shape{rng: rng, bucketBits: min(t, maxBucketBits)}
	s.blockBits = min(t-s.bucketBits, maxBlockBits)
	s.offsetWidth = width(uint64(rng.Len() - 1))
	return s
}

// width is the number of bytes that v needs, at least 1.
func width(v uint64) int { return max(1, (bits.Len64(v)+7)/8) }

func (s shape) blocks() int { return 1 << s.blockBits }

// suffixWidth is the bytes of a hash that are stored: the whole leading bytes follow from block and bucket.
func (s shape) suffixWidth() int { return HashSize - s.prefixWidth() }

func (s shape) prefixWidth() int { return (s.blockBits + s.bucketBits) / 8 }

// place is the block and the bucket of a hash.
func (s shape) place(h Hash) (block, bucket int) {
	at := uint64(h.top()) >> (32 - s.blockBits - s.bucketBits)
	return int(at >> s.bucketBits), int(at & (1<<s.bucketBits - 1))
}

// prefix puts the leading bytes that follow from block and bucket into h.
func (s shape) prefix(h *Hash, block, bucket int) {
	at := uint32(uint64(block<<s.bucketBits|bucket) << (32 - s.blockBits - s.bucketBits))
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], at)
	copy(h[:s.prefixWidth()], b[:])
}

func (s shape) head() []byte {
	b := append(make([]byte, 0, headSize), headMagic...)
	b = append(b, version, byte(s.blockBits), byte(s.bucketBits), byte(s.offsetWidth))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.rng.Start))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.rng.End))
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, sealed.Checksum(b))
}

func parseHead(b []byte) (shape, error) {
	le := binary.LittleEndian
	if string(b[:4]) != headMagic || b[4] != version || le.Uint32(b[headSize-crcSize:]) != sealed.Checksum(b[:headSize-crcSize]) {
		return shape{}, fmt.Errorf("head of a run: %w", fault.ErrCorrupt)
	}
	s := shape{blockBits: int(b[5]), bucketBits: int(b[6]), offsetWidth: int(b[7])}
	s.rng = kafkapos.Range{Start: kafkapos.Offset(le.Uint64(b[8:])), End: kafkapos.Offset(le.Uint64(b[16:]))}
	if s.blockBits > maxBlockBits || s.bucketBits > maxBucketBits || s.rng.Start < 0 || s.rng.Empty() ||
		s.offsetWidth != width(uint64(s.rng.Len()-1)) {
		return shape{}, fmt.Errorf("head of a run over %s: %w", s.rng, fault.ErrCorrupt)
	}
	return s, nil
}

// block is one block in memory; it aliases the bytes that it was parsed from.
type block struct {
	shape
	n          int
	deltaWidth int
	ends       []byte // per bucket: the number of entries up to its end, 4 bytes
	suffixes   []byte
	lows       []byte
	several    []byte // one bit per entry: the key has more than one event; 8-byte words
	deltas     []byte // highest - lowest of those entries
}

// parseBlock verifies a block. No bytes are a block without entries.
func parseBlock(s shape, b []byte) (block, error) {
	bl := block{shape: s}
	if len(b) == 0 {
		return bl, nil
	}
	if len(b) < crcSize || binary.LittleEndian.Uint32(b[len(b)-crcSize:]) != sealed.Checksum(b[:len(b)-crcSize]) {
		return bl, fmt.Errorf("block of a run: checksum: %w", fault.ErrCorrupt)
	}
	return openBlock(s, b)
}

// openBlock cuts a block whose checksum was verified before.
func openBlock(s shape, b []byte) (block, error) {
	bl := block{shape: s}
	if len(b) == 0 {
		return bl, nil
	}
	r := sealed.NewReader(b[:len(b)-crcSize])
	bl.n = int(r.Uint32())
	bl.deltaWidth = int(r.Byte())
	bl.ends = r.Bytes(4 << s.bucketBits)
	bl.suffixes = r.Bytes(bl.n * s.suffixWidth())
	bl.lows = r.Bytes(bl.n * s.offsetWidth)
	bl.several = r.Bytes((bl.n + 63) / 64 * 8)
	bl.deltas = r.Bytes(r.Len())
	if err := r.Done(); err != nil {
		return bl, fmt.Errorf("block of a run: %w", err)
	}
	if bl.end(1<<s.bucketBits-1) != bl.n || bl.deltaWidth > 8 || bl.rank(bl.n)*bl.deltaWidth != len(bl.deltas) {
		return bl, fmt.Errorf("block of a run with %d entries: %w", bl.n, fault.ErrCorrupt)
	}
	return bl, nil
}

// end is the number of entries up to the end of a bucket.
func (b *block) end(bucket int) int {
	if b.n == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b.ends[4*bucket:]))
}

// begin is the number of entries before a bucket.
func (b *block) begin(bucket int) int {
	if bucket == 0 {
		return 0
	}
	return b.end(bucket - 1)
}

func (b *block) suffix(i int) []byte {
	w := b.suffixWidth()
	return b.suffixes[i*w : (i+1)*w]
}

func (b *block) lowest(i int) kafkapos.Offset {
	return b.rng.Start + kafkapos.Offset(number(b.lows, i, b.offsetWidth))
}

func (b *block) highest(i int) kafkapos.Offset {
	low := b.lowest(i)
	if b.several[i/8]>>(i%8)&1 == 0 {
		return low
	}
	return low + kafkapos.Offset(number(b.deltas, b.rank(i), b.deltaWidth))
}

// rank is the number of entries before i whose key has several events.
func (b *block) rank(i int) int {
	n, w := 0, 0
	for ; w < i/64; w++ {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b.several[8*w:]))
	}
	if i%64 > 0 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b.several[8*w:]) & (1<<(i%64) - 1))
	}
	return n
}

// number is the i-th of little-endian numbers of w bytes.
func number(b []byte, i, w int) uint64 {
	v := uint64(0)
	for k := range w {
		v |= uint64(b[i*w+k]) << (8 * k)
	}
	return v
}

// appendNumber appends the low w bytes of v, little endian.
func appendNumber(b []byte, v uint64, w int) []byte {
	for k := range w {
		b = append(b, byte(v>>(8*k)))
	}
	return b
}
