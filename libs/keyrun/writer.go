package keyrun

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

// Info says what a finished run holds.
type Info struct {
	Range   kafkapos.Range
	Entries int64
	Size    int64 // bytes of the file
}

// Writer streams a run to a file; it holds one block of it in memory. Not safe for concurrent use.
type Writer struct {
	out     io.Writer
	shape   shape
	places  []uint64 // where each block begins, and where the last one ends
	size    uint64
	entries int64
	last    Hash
	block   int // the block being collected
	pending []Entry
	buf     []byte
	err     error
}

// NewWriter starts a run over rng. expected is about how many entries will come: it shapes the file for fast
// lookups and is no limit. The writer does not buffer beyond a block: give it a buffered out.
func NewWriter(out io.Writer, rng kafkapos.Range, expected int64) (*Writer, error) {
	if rng.Empty() || rng.Start < 0 {
		return nil, fmt.Errorf("write a run over %s: %w", rng, fault.ErrInvalid)
	}
	w := &Writer{out: out, shape: shapeFor(rng, max(0, expected))}
	w.write(w.shape.head())
	w.places = append(make([]uint64, 0, w.shape.blocks()+1), w.size)
	return w, w.err
}

// Add appends an entry. Entries come by ascending hash without duplicates, with offsets in the range;
// fault.ErrInvalid otherwise.
func (w *Writer) Add(e Entry) error {
	if w.err != nil {
		return w.err
	}
	if w.entries > 0 && e.Hash.Compare(w.last) <= 0 {
		return fmt.Errorf("add to a run: hashes do not ascend: %w", fault.ErrInvalid)
	}
	if e.Lowest > e.Highest || !w.shape.rng.Contains(e.Lowest) || !w.shape.rng.Contains(e.Highest) {
		return fmt.Errorf("add to a run over %s: offsets %d to %d: %w", w.shape.rng, e.Lowest, e.Highest, fault.ErrInvalid)
	}
	if at, _ := w.shape.place(e.Hash); at > w.block {
		w.finishBlocks(at)
	}
	w.pending = append(w.pending, e)
	w.last = e.Hash
	w.entries++
	return w.err
}

// Close finishes the file. It does not close or sync what it writes to.
func (w *Writer) Close() (Info, error) {
	w.finishBlocks(w.shape.blocks())
	index := w.size
	b := make([]byte, 0, len(w.places)*indexEntry+tailSize)
	for _, at := range w.places {
		b = binary.LittleEndian.AppendUint64(b, at)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(w.entries))
	b = binary.LittleEndian.AppendUint64(b, index)
	b = append(b, tailMagic...)
	b = binary.LittleEndian.AppendUint32(b, sealed.Checksum(b))
	w.write(b)
	if w.err != nil {
		return Info{}, w.err
	}
	return Info{Range: w.shape.rng, Entries: w.entries, Size: int64(w.size)}, nil
}

// finishBlocks writes the blocks before upTo.
func (w *Writer) finishBlocks(upTo int) {
	for ; w.block < upTo; w.block++ {
		if len(w.pending) > 0 {
			w.buf = w.shape.appendBlock(w.buf[:0], w.pending)
			w.write(w.buf)
			w.pending = w.pending[:0]
		}
		w.places = append(w.places, w.size)
	}
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.size += uint64(n)
	if err != nil {
		w.err = fmt.Errorf("write a run: %w", err)
	}
}

// appendBlock appends the entries of one block, which are at least one.
func (s shape) appendBlock(b []byte, entries []Entry) []byte {
	ends := make([]uint32, 1<<s.bucketBits)
	several := make([]uint64, (len(entries)+63)/64)
	widest := uint64(0)
	for i, e := range entries {
		_, bucket := s.place(e.Hash)
		ends[bucket]++
		if delta := uint64(e.Highest - e.Lowest); delta > 0 {
			several[i/64] |= 1 << (i % 64)
			widest = max(widest, delta)
		}
	}
	begin := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(entries)))
	b = append(b, byte(width(widest)))
	n := uint32(0)
	for _, c := range ends {
		n += c
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	for i := range entries {
		b = append(b, entries[i].Hash[s.prefixWidth():]...)
	}
	for i := range entries {
		b = appendNumber(b, uint64(entries[i].Lowest-s.rng.Start), s.offsetWidth)
	}
	for _, word := range several {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	for i := range entries {
		if delta := uint64(entries[i].Highest - entries[i].Lowest); delta > 0 {
			b = appendNumber(b, delta, width(widest))
		}
	}
	return binary.LittleEndian.AppendUint32(b, sealed.Checksum(b[begin:]))
}

// Write writes the run of rng in one call: entries by ascending hash.
func Write(out io.Writer, rng kafkapos.Range, entries []Entry) (Info, error) {
	w, err := NewWriter(out, rng, int64(len(entries)))
	if err != nil {
		return Info{}, err
	}
	for _, e := range entries {
		if err := w.Add(e); err != nil {
			return Info{}, err
		}
	}
	return w.Close()
}
