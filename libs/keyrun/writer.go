package keyrun

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Info says what a finished run holds.
type Info struct {
	Range   kafkapos.Range
	Entries int64
	Size    int64 // bytes of the file
}

// Writer streams a run to a file. It holds one block of it in memory, the filters of a group of blocks, and 4 bytes
// per block. Not safe for concurrent use.
type Writer struct {
	out   io.Writer
	shape shape
	size  int64
	last  Hash

	// pending is the block being collected: it has the columns if it is written now, several of its entries having
	// more than one event.
	pending []Entry
	columns columns
	several int

	firsts  []uint32 // per block: the leading bits of its first hash
	checks  []uint32 // per group: the CRC of its filters
	filters []byte   // of the group being written
	buf     []byte
	err     error
}

// NewWriter starts a run over rng. The writer writes a block at a time: give it a buffered out.
func NewWriter(out io.Writer, rng kafkapos.Range) (*Writer, error) {
	if rng.Empty() || rng.Start < 0 {
		return nil, fmt.Errorf("write a run over %s: %w", rng, fault.ErrInvalid)
	}
	return &Writer{out: out, shape: shape{rng: rng, seed: seedOf(rng)}}, nil
}

// Add appends an entry. Entries come by ascending hash without duplicates, with offsets in the range;
// fault.ErrInvalid otherwise.
func (w *Writer) Add(e Entry) error {
	if w.err != nil {
		return w.err
	}
	if w.shape.entries > 0 && e.Hash.Compare(w.last) <= 0 {
		return fmt.Errorf("add to a run: hashes do not ascend: %w", fault.ErrInvalid)
	}
	if rng := w.shape.rng; e.Lowest > e.Highest || !rng.Contains(e.Lowest) || !rng.Contains(e.Highest) {
		return fmt.Errorf("add to a run over %s: offsets %d to %d: %w", rng, e.Lowest, e.Highest, fault.ErrInvalid)
	}
	if !w.take(e) {
		w.finishBlock(blockSize)
		w.take(e)
	}
	w.last = e.Hash
	w.shape.entries++
	return w.err
}

// take puts an entry into the block being collected, if there is room for it.
func (w *Writer) take(e Entry) bool {
	c, several := w.columns, w.several
	if len(w.pending) == 0 {
		c, several = columns{offset: w.shape.offsetBits()}, 0
	} else {
		c.hash = e.Hash.less(w.pending[0].Hash).bits()
	}
	c.n++
	if delta := e.Highest - e.Lowest; delta > 0 {
		c.delta = max(c.delta, bits.Len64(uint64(delta)))
		several++
	}
	if len(w.pending) > 0 && c.size(several) > blockSize {
		return false
	}
	w.pending, w.columns, w.several = append(w.pending, e), c, several
	return true
}

// Close finishes the file. It does not close or sync what it writes to.
func (w *Writer) Close() (Info, error) {
	if len(w.pending) > 0 {
		w.shape.last = w.columns.size(w.several)
		w.finishBlock(w.shape.last)
	}
	w.finishGroup()
	b := make([]byte, 0, w.shape.indexSize()+footSize)
	for _, v := range w.firsts {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	for _, v := range w.checks {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	w.shape.index = checksum(0, b)
	w.write(w.shape.appendFoot(b))
	if w.err != nil {
		return Info{}, w.err
	}
	return Info{Range: w.shape.rng, Entries: w.shape.entries, Size: w.size}, nil
}

// finishBlock writes the block being collected, in size bytes.
func (w *Writer) finishBlock(size int) {
	w.buf = append(w.columns.append(w.buf[:0], w.shape.rng.Start, w.pending), make([]byte, blockSize)...)[:size]
	binary.LittleEndian.PutUint32(w.buf, checksum(w.shape.seed+uint32(w.shape.blocks), w.buf[crcSize:]))
	w.write(w.buf)
	at := len(w.filters)
	w.filters = append(w.filters, make([]byte, filterSize)...)
	for i := range w.pending {
		w.pending[i].Hash.addTo(w.filters[at:])
	}
	w.firsts = append(w.firsts, w.pending[0].Hash.top())
	w.pending = w.pending[:0]
	w.shape.blocks++
	if w.shape.blocks%groupBlocks == 0 {
		w.finishGroup()
	}
}

// finishGroup writes the filters of the blocks since the last ones.
func (w *Writer) finishGroup() {
	if len(w.filters) == 0 {
		return
	}
	w.checks = append(w.checks, checksum(w.shape.seed+uint32(len(w.checks)), w.filters))
	w.write(w.filters)
	w.filters = w.filters[:0]
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.size += int64(n)
	if err != nil {
		w.err = fmt.Errorf("write a run: %w", err)
	}
}

// append appends a block of these columns, with zeros where its checksum belongs.
func (c columns) append(b []byte, start kafkapos.Offset, entries []Entry) []byte {
	first := entries[0].Hash
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(c.n))
	b = append(b, byte(c.hash), byte(c.delta))
	b = append(b, first[:]...)
	w := bitWriter{b: b}
	for i := range entries {
		lead, trail, _ := entries[i].Hash.less(first).split(c.hash)
		w.put(lead>>(64-min(c.hash, 64)), min(c.hash, 64))
		w.put(trail, c.hash-min(c.hash, 64))
	}
	for i := range entries {
		w.put(uint64(entries[i].Lowest-start), c.offset)
	}
	for i := range entries {
		bit := uint64(0)
		if entries[i].Highest > entries[i].Lowest {
			bit = 1
		}
		w.put(bit, 1)
	}
	for i := range entries {
		if delta := uint64(entries[i].Highest - entries[i].Lowest); delta > 0 {
			w.put(delta, c.delta)
		}
	}
	return w.end()
}

// bitWriter appends numbers as strings of bits, the most significant first.
type bitWriter struct {
	b    []byte
	held uint64 // the last bits put, fewer than 32, that are not in b
	n    int    // how many they are
}

// put appends the low width bits of v, which has no others.
func (w *bitWriter) put(v uint64, width int) {
	if width > 32 {
		w.put(v>>32, width-32)
		v, width = v&(1<<32-1), 32
	}
	w.held = w.held<<width | v
	if w.n += width; w.n >= 32 {
		w.n -= 32
		w.b = binary.BigEndian.AppendUint32(w.b, uint32(w.held>>w.n))
	}
}

// end fills the last byte with zeros.
func (w *bitWriter) end() []byte {
	for ; w.n > 0; w.n -= 8 {
		w.b = append(w.b, byte(w.held<<32>>(24+w.n)))
	}
	return w.b
}

// Write writes the run of rng in one call: entries by ascending hash.
func Write(out io.Writer, rng kafkapos.Range, entries []Entry) (Info, error) {
	w, err := NewWriter(out, rng)
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
