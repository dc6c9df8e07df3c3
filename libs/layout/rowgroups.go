package layout

import (
	"iter"

	"github.com/frazil-io/frazil/libs/kafkapos"
)

// smallestFullGroup is the size of the smallest row group that is not a rest: it keeps the number of row
// groups of an open chunk's file small. A power of 4.
const smallestFullGroup = 1024

// RowGroups answers the row groups of a data file over rng, ascending and without a hole between them. They
// are a function of the range and the block size only, so that a file of a closed chunk and one of an open
// chunk with the same range have the same bytes.
//
// With block = 2^blockLog2, a power of 4, and m = min(1024, block): a rest up to the next multiple of m if
// the start is none; then, while m more offsets fit, the largest 4^k in [m, block] that is aligned here and
// fits; then a rest up to the end. A group without rows is left out by the caller.
func RowGroups(rng kafkapos.Range, blockLog2 int) []kafkapos.Range {
	if rng.Empty() {
		return nil
	}
	block := kafkapos.Offset(1) << blockLog2
	m := min(smallestFullGroup, block)
	var out []kafkapos.Range
	take := func(end kafkapos.Offset) {
		out = append(out, kafkapos.Range{Start: rng.Start, End: end})
		rng.Start = end
	}
	if rest := rng.Start & (m - 1); rest != 0 {
		take(min(rng.Start-rest+m, rng.End))
	}
	for rng.End-rng.Start >= m {
		size := block
		for rng.Start&(size-1) != 0 || rng.End-rng.Start < size {
			size >>= 2
		}
		take(rng.Start + size)
	}
	if !rng.Empty() {
		take(rng.End)
	}
	return out
}

// Chunk answers the chunk of 2^log2 offsets that holds off. The file of a chunk at a cut is over
// Chunk(off, log2).Intersect(cut).
func Chunk(off kafkapos.Offset, log2 int) kafkapos.Range {
	start := off &^ (1<<log2 - 1)
	return kafkapos.Range{Start: start, End: start + 1<<log2}
}

// Chunks answers the whole chunks of 2^log2 offsets that rng meets, ascending.
func Chunks(rng kafkapos.Range, log2 int) iter.Seq[kafkapos.Range] {
	return func(yield func(kafkapos.Range) bool) {
		for start := Chunk(rng.Start, log2).Start; start < rng.End && !rng.Empty(); start += 1 << log2 {
			if !yield(kafkapos.Range{Start: start, End: start + 1<<log2}) {
				return
			}
		}
	}
}
