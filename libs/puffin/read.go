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
	if len(blob) < blobEnvelope+8 {
		return nil, fmt.Errorf("deletion vector of %d bytes: %w", len(blob), fault.ErrCorrupt)
	}
	body := blob[4 : len(blob)-4]
	switch {
	case int64(binary.BigEndian.Uint32(blob)) != int64(len(body)):
		return nil, fmt.Errorf("deletion vector states %d bytes of %d: %w", binary.BigEndian.Uint32(blob), len(body), fault.ErrCorrupt)
	case string(body[:4]) != vectorMagic:
		return nil, fmt.Errorf("no deletion vector: %w", fault.ErrCorrupt)
	case crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(blob[len(blob)-4:]):
		return nil, fmt.Errorf("deletion vector with a wrong checksum: %w", fault.ErrCorrupt)
	}
	out := roaring.New()
	groups := binary.LittleEndian.Uint64(body[4:])
	in := bytes.NewReader(body[4+8:])
	for ; groups > 0; groups-- {
		var key [4]byte
		if n, _ := in.Read(key[:]); n != len(key) { // the count says it
			return nil, fmt.Errorf("deletion vector cut short: %w", fault.ErrCorrupt)
		}
		set := roaring.New()
		if _, err := set.ReadFrom(in); err != nil {
			return nil, fmt.Errorf("deletion vector: %w: %w", fault.ErrCorrupt, err)
		}
		if err := set.Validate(); err != nil {
			return nil, fmt.Errorf("deletion vector: %w: %w", fault.ErrCorrupt, err)
		}
		if set.IsEmpty() {
			continue
		}
		if binary.LittleEndian.Uint32(key[:]) != 0 {
			return nil, fmt.Errorf("deletion vector with positions from 2^32 on: %w", fault.ErrUnsupported)
		}
		out.Or(set)
	}
	return out, nil
}
