package puffin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
)

// ReadVector decodes the blob of a deletion vector as any writer makes it: the bytes that a manifest entry locates.
// The answer does not alias the blob. Errors: fault.ErrCorrupt; fault.ErrUnsupported for positions from 2^32 on.
func ReadVector(blob []byte) (*roaring.Bitmap, error) {
	out := roaring.New()
	beyond := false
	err := EachBitmap(blob, func(high uint32, low *roaring.Bitmap) {
		if high != 0 {
			beyond = true
			return
		}
		out.Or(low)
	})
	if err == nil && beyond {
		err = fmt.Errorf("deletion vector with positions from 2^32 on: %w", fault.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EachBitmap decodes the blob of a deletion vector and calls yield for each bitmap in it that is not empty: the upper
// half of its positions, and a bitmap of their lower halves, which does not alias the blob. Errors: fault.ErrCorrupt,
// after which what was yielded is worth nothing.
func EachBitmap(blob []byte, yield func(high uint32, low *roaring.Bitmap)) error {
	if len(blob) < blobEnvelope+8 {
		return fmt.Errorf("deletion vector of %d bytes: %w", len(blob), fault.ErrCorrupt)
	}
	body := blob[4 : len(blob)-4]
	switch {
	case int64(binary.BigEndian.Uint32(blob)) != int64(len(body)):
		return fmt.Errorf("deletion vector states %d bytes of %d: %w", binary.BigEndian.Uint32(blob), len(body), fault.ErrCorrupt)
	case string(body[:4]) != vectorMagic:
		return fmt.Errorf("no deletion vector: %w", fault.ErrCorrupt)
	case crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(blob[len(blob)-4:]):
		return fmt.Errorf("deletion vector with a wrong checksum: %w", fault.ErrCorrupt)
	}
	groups := binary.LittleEndian.Uint64(body[4:])
	in := bytes.NewReader(body[4+8:])
	for ; groups > 0; groups-- {
		var high [4]byte
		if n, _ := in.Read(high[:]); n != len(high) { // the count says it
			return fmt.Errorf("deletion vector cut short: %w", fault.ErrCorrupt)
		}
		low := roaring.New()
		if _, err := low.ReadFrom(in); err != nil {
			return fmt.Errorf("deletion vector: %w: %w", fault.ErrCorrupt, err)
		}
		if err := low.Validate(); err != nil {
			return fmt.Errorf("deletion vector: %w: %w", fault.ErrCorrupt, err)
		}
		if !low.IsEmpty() {
			yield(binary.LittleEndian.Uint32(high[:]), low)
		}
	}
	return nil
}
