package keyrun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Run is an open run file. Safe for concurrent use. In memory it has 4 bytes per block of about 90 keys, beside the
// bytes it was given and its filters.
type Run struct {
	shape  shape
	size   int64
	firsts []uint32 // per block: the leading bits of its first hash
	checks []uint32 // per group: the CRC of its filters
	src    io.ReaderAt
	filter filter
	// mem is the whole file if it was given as bytes; verified has a bit per block whose checksum was seen
	// to be right, so that it is checked once.
	mem      []byte
	verified []atomic.Uint64
}

// Open opens a run of size bytes for random access; every lookup reads and verifies the blocks that it needs.
// filters bounds the memory for what spares reads in vain; nil: there is none. fault.ErrCorrupt: the file does not
// verify. The caller closes the run and then src, after the last use of the run.
func Open(src io.ReaderAt, size int64, filters *Filters) (*Run, error) {
	if size < footSize {
		return nil, fmt.Errorf("open a run of %d bytes: too short: %w", size, fault.ErrCorrupt)
	}
	foot := make([]byte, footSize)
	if err := readAt(src, foot, size-footSize); err != nil {
		return nil, err
	}
	s, err := parseFoot(foot, size)
	if err != nil {
		return nil, err
	}
	b := make([]byte, s.indexSize())
	if err := readAt(src, b, s.indexAt()); err != nil {
		return nil, err
	}
	if checksum(0, b) != s.index {
		return nil, fmt.Errorf("open a run over %s: checksum of the index: %w", s.rng, fault.ErrCorrupt)
	}
	index := make([]uint32, len(b)/indexEntry)
	for i := range index {
		index[i] = binary.LittleEndian.Uint32(b[i*indexEntry:])
	}
	r := &Run{shape: s, size: size, firsts: index[:s.blocks], checks: index[s.blocks:], src: src}
	r.filter.bound = filters
	for i := 1; i < s.blocks; i++ {
		if r.firsts[i-1] > r.firsts[i] {
			return nil, fmt.Errorf("open a run over %s: index of block %d: %w", s.rng, i, fault.ErrCorrupt)
		}
	}
	return r, nil
}

// FromBytes opens a run that lies in memory, or in mapped memory; b may not change while the run is in use. A
// block is verified at its first use.
func FromBytes(b []byte) (*Run, error) {
	r, err := Open(bytes.NewReader(b), int64(len(b)), nil)
	if err != nil {
		return nil, err
	}
	r.mem = b
	r.verified = make([]atomic.Uint64, (r.shape.blocks+63)/64)
	return r, nil
}

// Close gives back what the run holds of the memory for filters.
func (r *Run) Close() {
	if r.filter.bound != nil {
		r.filter.bound.close(r)
	}
}

// Info says what the run holds.
func (r *Run) Info() Info { return Info{r.shape.rng, r.shape.entries, r.size} }

// Range is the offsets whose keys the run has.
func (r *Run) Range() kafkapos.Range { return r.shape.rng }

// Entries is the number of keys.
func (r *Run) Entries() int64 { return r.shape.entries }

// All answers the entries by ascending hash. It reads the whole file but what Open read, and ends after the first
// error, which is fault.ErrCorrupt or a read error.
func (r *Run) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := cursor{run: r}
		for {
			ok, err := c.next()
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !ok || !yield(c.entry, nil) {
				return
			}
		}
	}
}

// cursor walks the entries of a run. It holds a group of blocks.
type cursor struct {
	run   *Run
	entry Entry // after next answered true

	group  []byte // what is read, with slack behind it
	at     int    // blocks that were opened
	block  block
	i      int   // entries of the block that were answered
	rank   int   // those of them with several events
	passed int64 // entries of the blocks before
}

// next goes to the next entry; false at the end.
func (c *cursor) next() (bool, error) {
	for c.i == c.block.n {
		s := c.run.shape
		c.passed += int64(c.block.n)
		c.block, c.i, c.rank = block{}, 0, 0
		if c.at == s.blocks {
			if c.passed != s.entries {
				return false, fmt.Errorf("run over %s: %d entries, want %d: %w", s.rng, c.passed, s.entries, fault.ErrCorrupt)
			}
			return false, nil
		}
		if err := c.open(); err != nil {
			return false, err
		}
	}
	c.entry = c.block.entry(c.i, c.rank)
	c.i++
	if c.entry.Highest > c.entry.Lowest {
		c.rank++
	}
	return true, nil
}

// open opens the next block.
func (c *cursor) open() (err error) {
	s := c.run.shape
	if c.at%groupBlocks == 0 {
		if c.group == nil {
			c.group = make([]byte, min(groupSize, s.indexAt())+slack)
		}
		if err := c.readGroup(c.at / groupBlocks); err != nil {
			return err
		}
	}
	from := c.at % groupBlocks * blockSize
	c.block, err = s.parseBlock(c.at, c.group[from:from+s.size(c.at)])
	c.at++
	return err
}

// readGroup reads a group of blocks with its filters, which it verifies.
func (c *cursor) readGroup(g int) error {
	s := c.run.shape
	from, to, filters := s.group(g)
	n := filters - place(from)
	b := c.group[:n+int64(to-from)*filterSize]
	if err := readAt(c.run.src, b, place(from)); err != nil {
		return err
	}
	return c.run.verifyFilters(g, b[n:])
}

// verifyFilters verifies the filters of a group.
func (r *Run) verifyFilters(g int, b []byte) error {
	if checksum(r.shape.seed+uint32(g), b) != r.checks[g] {
		return fmt.Errorf("filters of the run over %s: checksum of group %d: %w", r.shape.rng, g, fault.ErrCorrupt)
	}
	return nil
}

func readAt(src io.ReaderAt, b []byte, off int64) error {
	n, err := src.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF:
		return fmt.Errorf("read %d bytes of a run at %d: only %d: %w", len(b), off, n, fault.ErrCorrupt)
	}
	return fmt.Errorf("read a run at %d: %w", off, err)
}
