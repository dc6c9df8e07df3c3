// Package bitmap writes and reads the bitmaps that persistent forms hold: their length as uvarint, then the roaring
// format of 32-bit bitmaps (docs/FORMAT.md).
package bitmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/sealed"
)

// Append appends a bitmap as it is: optimise it first if run containers may make it smaller.
func Append(b []byte, set *roaring.Bitmap) ([]byte, error) {
	raw, err := set.ToBytes()
	if err != nil {
		return nil, fmt.Errorf("encode bitmap: %w", err)
	}
	b = binary.AppendUvarint(b, uint64(len(raw)))
	return append(b, raw...), nil
}

// Read takes what Append appended. A bitmap that is not well-formed is the reader's error, and the answer is empty. It
// does not alias the body.
func Read(r *sealed.Reader) *roaring.Bitmap {
	set := roaring.New()
	raw := r.Bytes(int(r.Uvarint(math.MaxInt32)))
	if r.Err() != nil {
		return set
	}
	n, err := set.ReadFrom(bytes.NewReader(raw))
	if err == nil && n != int64(len(raw)) {
		err = fmt.Errorf("%d of %d bytes", n, len(raw))
	}
	if err == nil {
		err = wellFormed(set)
	}
	if err != nil {
		r.Fail("bitmap: %v", err)
		return roaring.New()
	}
	return set
}

// wellFormed checks that the values ascend and are as many as the containers state, and that no container is empty.
// It takes linear time: roaring's Validate compares every two runs of a container.
func wellFormed(set *roaring.Bitmap) error {
	var (
		buf        [512]uint32
		count      uint64
		containers uint64
		last       = int64(-1)
	)
	values := set.ManyIterator()
	for n := values.NextMany(buf[:]); n > 0; n = values.NextMany(buf[:]) {
		for _, v := range buf[:n] {
			if int64(v) <= last {
				return errors.New("values do not ascend")
			}
			if last < 0 || v>>16 != uint32(last)>>16 {
				containers++
			}
			last = int64(v)
		}
		count += uint64(n)
	}
	if stated := set.Stats(); containers != stated.Containers || count != set.GetCardinality() {
		return fmt.Errorf("%d values in %d containers, stated %d in %d", count, containers, set.GetCardinality(), stated.Containers)
	}
	return nil
}
