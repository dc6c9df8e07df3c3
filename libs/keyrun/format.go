package keyrun

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// The file (docs/FORMAT.md, "Run"): groups of blocks, each group followed by the filters of its blocks; the index; a
// foot. Every byte is under a CRC-32C.
const (
	version = 2
	magic   = "FZKR"

	// blockSize is the most that a block takes, and its place is a multiple of it: what a lookup reads of a run for
	// one key. It divides a page of the system's cache, so that a block lies in one.
	blockSize = 1 << 10
	// blockHead is the bytes of a block before its columns: CRC, entries, two widths, first hash.
	blockHead = 4 + 2 + 1 + 1 + HashSize
	// filterSize is the bytes of the filter of a block: a cache line.
	filterSize = 64
	// groupBlocks is the number of blocks before their filters.
	groupBlocks = 64
	groupSize   = groupBlocks * (blockSize + filterSize)

	indexEntry = 4 // the leading bits of a block's first hash, or the CRC of the filters of a group
	footSize   = 48
	crcSize    = 4

	// slack is how many bytes beyond a block a reader of its columns touches.
	slack = 16
)

// shape is what the foot says about a file.
type shape struct {
	rng     kafkapos.Range
	entries int64
	blocks  int
	last    int    // bytes of the last block
	index   uint32 // CRC of the index
	seed    uint32 // of the checksums, by seedOf
}

// offsetBits is the bits of an offset relative to the range's start.
func (s shape) offsetBits() int { return bits.Len64(uint64(s.rng.Len() - 1)) }

// groups is the number of groups of blocks.
func (s shape) groups() int { return (s.blocks + groupBlocks - 1) / groupBlocks }

// place is where a block begins in the file.
func place(block int) int64 {
	return int64(block/groupBlocks)*groupSize + int64(block%groupBlocks)*blockSize
}

// size is the bytes of a block.
func (s shape) size(block int) int {
	if block == s.blocks-1 {
		return s.last
	}
	return blockSize
}

// group is the blocks of a group, and where its filters begin, which lie behind the blocks.
func (s shape) group(g int) (from, to int, filters int64) {
	from, to = g*groupBlocks, min((g+1)*groupBlocks, s.blocks)
	return from, to, place(to-1) + int64(s.size(to-1))
}

// indexAt is where the index begins: what groups take.
func (s shape) indexAt() int64 {
	if s.blocks == 0 {
		return 0
	}
	from, to, filters := s.group(s.groups() - 1)
	return filters + int64(to-from)*filterSize
}

// indexSize is the bytes of the index.
func (s shape) indexSize() int64 { return int64(s.blocks+s.groups()) * indexEntry }

func (s shape) appendFoot(b []byte) []byte {
	begin := len(b)
	b = append(b, magic...)
	b = append(b, version, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.rng.Start))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.rng.End))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.entries))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.blocks))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.last))
	b = binary.LittleEndian.AppendUint32(b, s.index)
	return binary.LittleEndian.AppendUint32(b, checksum(0, b[begin:]))
}

// parseFoot reads the foot of a file of size bytes. A file of another version counts as damaged: a run is made again
// from Kafka, whichever program wrote it.
func parseFoot(b []byte, size int64) (shape, error) {
	le := binary.LittleEndian
	if string(b[:4]) != magic || b[4] != version || le.Uint32(b[footSize-crcSize:]) != checksum(0, b[:footSize-crcSize]) {
		return shape{}, fmt.Errorf("foot of a run: %w", fault.ErrCorrupt)
	}
	s := shape{
		rng:     kafkapos.Range{Start: kafkapos.Offset(le.Uint64(b[8:])), End: kafkapos.Offset(le.Uint64(b[16:]))},
		entries: int64(le.Uint64(b[24:])), blocks: int(le.Uint32(b[32:])), last: int(le.Uint32(b[36:])), index: le.Uint32(b[40:]),
	}
	s.seed = seedOf(s.rng)
	whole := s.blocks == 0 && s.last == 0 || s.blocks > 0 && s.last >= blockHead && s.last <= blockSize
	if s.rng.Start < 0 || s.rng.Empty() || !whole || s.entries < int64(s.blocks) || s.indexAt()+s.indexSize()+footSize != size {
		return shape{}, fmt.Errorf("foot of a run over %s, %d blocks in %d bytes: %w", s.rng, s.blocks, size, fault.ErrCorrupt)
	}
	return s, nil
}

// checksum is the CRC-32C of b that begins from the given value.
func checksum(from uint32, b []byte) uint32 {
	return crc32.Update(from, crc32.MakeTable(crc32.Castagnoli), b)
}

// seedOf is what the checksum of a block, or of the filters of a group, begins from, less its number: one that was
// meant for another place, or for a run over another range, does not verify.
func seedOf(rng kafkapos.Range) uint32 {
	b := binary.LittleEndian.AppendUint64(nil, uint64(rng.Start))
	return checksum(0, binary.LittleEndian.AppendUint64(b, uint64(rng.End)))
}

// filterBits are the bits of a block's filter that a hash sets. They come from its last 36 bits, which say nothing
// about the block that it is in.
func (h Hash) filterBits() (a, b, c, d uint64) {
	v := binary.BigEndian.Uint64(h[2:])
	return v & 511, v >> 9 & 511, v >> 18 & 511, v >> 27 & 511
}

// addTo puts a hash into a filter.
func (h Hash) addTo(filter []byte) {
	a, b, c, d := h.filterBits()
	filter[a>>3] |= 1 << (a & 7)
	filter[b>>3] |= 1 << (b & 7)
	filter[c>>3] |= 1 << (c & 7)
	filter[d>>3] |= 1 << (d & 7)
}

// in is false if the hash was not put into the filter; one of about 15 that were not get true.
func (h Hash) in(filter []byte) bool {
	a, b, c, d := h.filterBits()
	_ = filter[filterSize-1]
	return filter[a>>3]>>(a&7)&(filter[b>>3]>>(b&7))&(filter[c>>3]>>(c&7))&(filter[d>>3]>>(d&7))&1 == 1
}
