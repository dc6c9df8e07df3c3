package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/sealed"
)

const version = 1

const magic sealed.Magic = "FZLY"

// Bytes is the layout's persistent form (docs/FORMAT.md, "Layout").
func (l *Layout) Bytes() ([]byte, error) {
	b := sealed.Begin(magic, version, 64)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.chunk))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.rng.Start))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.rng.End))
	for c := Row; int(c) < classes; c++ {
		set := l.sets[c].Clone()
		set.RunOptimize()
		raw, err := set.ToBytes()
		if err != nil {
			return nil, fmt.Errorf("encode layout %s: %w", l.rng, err)
		}
		b = binary.AppendUvarint(b, uint64(len(raw)))
		b = append(b, raw...)
	}
	return sealed.End(b), nil
}

// Parse reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify. The layout does not alias b.
func Parse(b []byte) (*Layout, error) {
	body, err := sealed.Open(magic, version, b)
	if err != nil {
		return nil, err
	}
	r := sealed.NewReader(body)
	l := &Layout{chunk: kafkapos.Offset(r.Int64())}
	l.rng = kafkapos.Range{Start: kafkapos.Offset(r.Int64()), End: kafkapos.Offset(r.Int64())}
	if l.chunk < 0 || l.rng.Start < l.chunk || l.rng.Empty() || l.rng.End-l.chunk > 1<<MaxChunkLog2 {
		r.Fail("layout %s of the chunk at %d", l.rng, l.chunk)
	}
	l.sets[Gap] = roaring.New()
	for c := Row; int(c) < classes; c++ {
		l.sets[c] = l.parseSet(r)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse layout: %w", err)
	}
	if err := l.checkDisjoint(); err != nil {
		return nil, fmt.Errorf("parse layout: %w: %w", err, fault.ErrCorrupt)
	}
	return l, nil
}

func (l *Layout) parseSet(r *sealed.Reader) *roaring.Bitmap {
	raw := r.Bytes(int(r.Uvarint(math.MaxInt32)))
	set := roaring.New()
	if r.Err() != nil {
		return set
	}
	n, err := set.ReadFrom(bytes.NewReader(raw))
	switch {
	case err != nil:
		r.Fail("bitmap: %v", err)
	case n != int64(len(raw)):
		r.Fail("bitmap of %d bytes, read %d", len(raw), n)
	case set.IsEmpty():
	case set.Validate() != nil:
		r.Fail("bitmap: %v", set.Validate())
	case set.Minimum() < l.rel(l.rng.Start) || set.Maximum() >= l.rel(l.rng.End):
		r.Fail("class outside of %s", l.rng)
	}
	return set
}
