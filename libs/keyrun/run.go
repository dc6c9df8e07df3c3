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
	"github.com/frazil-io/frazil/libs/sealed"
)

// Run is an open run file. Safe for concurrent use. In memory it has about 8 bytes per 1024 entries, beside
// the bytes it was given.
type Run struct {
	info   Info
	shape  shape
	places []byte // the index: where each block begins, and where the last one ends
	src    io.ReaderAt
	// mem is the whole file if it was given as bytes; verified has a bit per block whose checksum was seen
	// to be right, so that it is checked once.
	mem      []byte
	verified []atomic.Uint64
}

// Open opens a run of size bytes for random access; every lookup reads and verifies the blocks that it needs.
// fault.ErrCorrupt: the file does not verify. The caller closes src, after the last use of the run.
func Open(src io.ReaderAt, size int64) (*Run, error) {
	if size < headSize+2*indexEntry+tailSize {
		return nil, fmt.Errorf("open a run of %d bytes: too short: %w", size, fault.ErrCorrupt)
	}
	head, tail := make([]byte, headSize), make([]byte, tailSize)
	if err := readAt(src, head, 0); err != nil {
		return nil, err
	}
	if err := readAt(src, tail, size-tailSize); err != nil {
		return nil, err
	}
	s, err := parseHead(head)
	if err != nil {
		return nil, err
	}
	index := int64(binary.LittleEndian.Uint64(tail[8:]))
	want := int64(s.blocks()+1) * indexEntry
	if string(tail[16:20]) != tailMagic || index < headSize || index+want+tailSize != size {
		return nil, fmt.Errorf("open a run over %s: index at %d of %d bytes: %w", s.rng, index, size, fault.ErrCorrupt)
	}
	b := make([]byte, want+tailSize)
	if err := readAt(src, b, index); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(b[len(b)-crcSize:]) != sealed.Checksum(b[:len(b)-crcSize]) {
		return nil, fmt.Errorf("open a run over %s: checksum of the index: %w", s.rng, fault.ErrCorrupt)
	}
	r := &Run{shape: s, places: b[:want], src: src}
	r.info = Info{Range: s.rng, Entries: int64(binary.LittleEndian.Uint64(tail)), Size: size}
	if r.info.Entries < 0 || r.place(0) != headSize || r.place(s.blocks()) != index {
		return nil, fmt.Errorf("open a run over %s: index: %w", s.rng, fault.ErrCorrupt)
	}
	for i := range s.blocks() {
		if r.place(i) > r.place(i+1) {
			return nil, fmt.Errorf("open a run over %s: index of block %d: %w", s.rng, i, fault.ErrCorrupt)
		}
	}
	return r, nil
}

// FromBytes opens a run that lies in memory, or in mapped memory; b may not change while the run is in use. A
// block is verified at its first use.
func FromBytes(b []byte) (*Run, error) {
	r, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	r.mem = b
	r.verified = make([]atomic.Uint64, (r.shape.blocks()+63)/64)
	return r, nil
}

// Info says what the run holds.
func (r *Run) Info() Info { return r.info }

// Range is the offsets whose keys the run has.
func (r *Run) Range() kafkapos.Range { return r.info.Range }

// Entries is the number of keys.
func (r *Run) Entries() int64 { return r.info.Entries }

// All answers the entries by ascending hash. It ends after the first error, which is fault.ErrCorrupt or a
// read error.
func (r *Run) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var buf []byte
		seen := int64(0)
		for i := range r.shape.blocks() {
			b, err := r.block(i, &buf)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !b.all(i, yield) {
				return
			}
			seen += int64(b.n)
		}
		if seen != r.info.Entries {
			yield(Entry{}, fmt.Errorf("run over %s: %d entries, want %d: %w", r.info.Range, seen, r.info.Entries, fault.ErrCorrupt))
		}
	}
}

// all yields the entries of block number at; false when the consumer has had enough.
func (b *block) all(at int, yield func(Entry, error) bool) bool {
	rank := 0
	for bucket := range 1 << b.bucketBits {
		e := Entry{}
		b.prefix(&e.Hash, at, bucket)
		begin, end := b.begin(bucket), b.end(bucket)
		if begin > end || end > b.n {
			return yield(Entry{}, fmt.Errorf("block of a run: bucket %d: %w", bucket, fault.ErrCorrupt)) && false
		}
		for i := begin; i < end; i++ {
			copy(e.Hash[b.prefixWidth():], b.suffix(i))
			e.Lowest = b.lowest(i)
			e.Highest = e.Lowest
			if b.several[i/8]>>(i%8)&1 == 1 {
				e.Highest += kafkapos.Offset(number(b.deltas, rank, b.deltaWidth))
				rank++
			}
			if !yield(e, nil) {
				return false
			}
		}
	}
	return true
}

// side is which offset of an entry a lookup wants.
type side uint8

const (
	lowest side = iota
	highest
)

// lookup fills dst[i] for hashes[i] where dst[i] is None and the run has the key. hashes ascends.
func (r *Run) lookup(hashes []Hash, dst []kafkapos.Offset, want side) error {
	var (
		buf  []byte
		b    block
		open = -1
	)
	for i, h := range hashes {
		if dst[i] != None {
			continue
		}
		at, bucket := r.shape.place(h)
		if at != open {
			var err error
			if b, err = r.block(at, &buf); err != nil {
				return err
			}
			open = at
		}
		k, ok, err := b.find(bucket, h)
		switch {
		case err != nil:
			return err
		case !ok:
		case want == lowest:
			dst[i] = b.lowest(k)
		default:
			dst[i] = b.highest(k)
		}
	}
	return nil
}

// find answers the entry of h, which belongs into the given bucket.
func (b *block) find(bucket int, h Hash) (i int, ok bool, err error) {
	if b.n == 0 {
		return 0, false, nil
	}
	lo, hi := b.begin(bucket), b.end(bucket)
	if lo > hi || hi > b.n {
		return 0, false, fmt.Errorf("block of a run: bucket %d: %w", bucket, fault.ErrCorrupt)
	}
	want := h[b.prefixWidth():]
	w, suffixes := len(want), b.suffixes
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		switch c := bytes.Compare(suffixes[mid*w:(mid+1)*w], want); {
		case c == 0:
			return mid, true, nil
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return 0, false, nil
}

// place is where block i begins in the file.
func (r *Run) place(i int) int64 { return int64(binary.LittleEndian.Uint64(r.places[i*indexEntry:])) }

// block answers block i, which may alias buf until the next call.
func (r *Run) block(i int, buf *[]byte) (block, error) {
	from, to := r.place(i), r.place(i+1)
	if r.mem != nil {
		word, bit := &r.verified[i/64], uint64(1)<<(i%64)
		if word.Load()&bit != 0 {
			return openBlock(r.shape, r.mem[from:to])
		}
		b, err := parseBlock(r.shape, r.mem[from:to])
		if err == nil {
			word.Or(bit)
		}
		return b, err
	}
	if int64(cap(*buf)) < to-from {
		*buf = make([]byte, to-from)
	}
	*buf = (*buf)[:to-from]
	if err := readAt(r.src, *buf, from); err != nil {
		return block{}, err
	}
	return parseBlock(r.shape, *buf)
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
