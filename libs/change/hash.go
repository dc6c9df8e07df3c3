package change

import (
	"encoding/binary"

	"github.com/dchest/siphash"
)

// HashLen is the length of a key hash, bytes.
const HashLen = 10

// Hash stands for a key: two keys of one table are taken as equal when their hashes are. 80 keyed bits make the
// chance that any two of 10^9 keys meet about 4*10^-7, and nobody without the table's key can look for such a pair.
type Hash = [HashLen]byte

// Hasher turns canonical encodings into hashes. It is immutable and safe for concurrent use.
type Hasher struct{ k0, k1 uint64 }

// NewHasher takes the 16-byte key of a table's state epoch.
func NewHasher(key [16]byte) *Hasher {
	return &Hasher{binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])}
}

// Hash is the first 80 bits of SipHash-2-4-128, in the byte order of SipHash's reference implementation.
func (h *Hasher) Hash(canonical []byte) Hash {
	first, second := siphash.Hash128(h.k0, h.k1, canonical)
	var out Hash
	binary.LittleEndian.PutUint64(out[:8], first)
	binary.LittleEndian.PutUint16(out[8:], uint16(second))
	return out
}
