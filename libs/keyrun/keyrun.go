// Package keyrun is the key index: immutable sorted runs of (key hash, lowest offset, highest offset), one per
// range of a partition. A run can be lost and made again; it is never the source of a delete at read time.
package keyrun

import (
	"bytes"
	"encoding/binary"

	"github.com/frazil-io/frazil/libs/kafkapos"
)

// HashSize is the size of a key hash, in bytes.
const HashSize = 10

// Hash is the first 80 bits of the keyed hash of a canonical key. Runs are ordered by its bytes.
type Hash [HashSize]byte

// Compare orders hashes by their bytes.
func (h Hash) Compare(o Hash) int {
	a, b := h.prefix(), o.prefix()
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return bytes.Compare(h[8:], o[8:])
}

// prefix is the first 64 bits as a number, in the order of the bytes.
func (h Hash) prefix() uint64 { return binary.BigEndian.Uint64(h[:8]) }

// top is the first 32 bits as a number.
func (h Hash) top() uint32 { return binary.BigEndian.Uint32(h[:4]) }

// None is the answer to a lookup that found nothing.
const None kafkapos.Offset = -1

// Entry says where a key's events lie in the range of a run.
type Entry struct {
	Hash Hash
	// Lowest and Highest are the offsets of the key's oldest and newest event; equal when there is one.
	Lowest, Highest kafkapos.Offset
}
