package layout

import (
	"encoding/binary"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/bitmap"
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
		var err error
		if b, err = bitmap.Append(b, set); err != nil {
			return nil, fmt.Errorf("encode layout %s: %w", l.rng, err)
		}
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
	set := bitmap.Read(r)
	if !set.IsEmpty() && (set.Minimum() < l.rel(l.rng.Start) || set.Maximum() >= l.rel(l.rng.End)) {
		r.Fail("class outside of %s", l.rng)
	}
	return set
}
