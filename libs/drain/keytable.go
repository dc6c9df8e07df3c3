package drain

import "github.com/dchest/siphash"

// keyTable says of each delete key the highest sequence number of a delete that has it. Keys are held as 128-bit
// hashes under a random key: two of n keys are equal by chance with a probability of about n² / 2^129, below that of
// any failure of the machine. It does not grow: the caller says how many keys there will be. Reading is safe for
// concurrent use once all keys are in.
type keyTable struct {
	k0, k1 uint64
	slots  []slot
	mask   uint64
}

type slot struct {
	a, b uint64
	seq  int64 // 0 = empty: deletes have sequence numbers from 1 on
}

const slotBytes = 24

// slotsFor answers how many slots n keys need: a power of two that they fill to three quarters at the most.
func slotsFor(n int64) int64 {
	s := int64(16)
	for s*3/4 < n {
		s *= 2
	}
	return s
}

// capacityOf answers how many keys fit in so many bytes.
func capacityOf(bytes int64) int64 {
	s := int64(16)
	for s*2*slotBytes <= bytes {
		s *= 2
	}
	return s * 3 / 4
}

// reset empties the table for n keys, with the memory it has if that is of the right size.
func (t *keyTable) reset(n int64) {
	if s := slotsFor(n); int64(len(t.slots)) == s {
		clear(t.slots)
	} else {
		t.slots = nil // before the new one is made
		t.slots = make([]slot, s)
	}
	t.mask = uint64(len(t.slots) - 1)
}

// hash answers the form that a key is held in.
func (t *keyTable) hash(key []byte) [2]uint64 {
	a, b := siphash.Hash128(t.k0, t.k1, key)
	return [2]uint64{a, b}
}

// put keeps the higher of two sequence numbers.
func (t *keyTable) put(h [2]uint64, seq int64) {
	a, b := h[0], h[1]
	for i := a & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		if s.seq == 0 {
			s.a, s.b = a, b
		}
		if s.a == a && s.b == b {
			s.seq = max(s.seq, seq)
			return
		}
	}
}

// get answers the highest sequence number of a delete with the key; 0 if there is none.
func (t *keyTable) get(h [2]uint64) int64 {
	a, b := h[0], h[1]
	for i := a & t.mask; ; i = (i + 1) & t.mask {
		s := &t.slots[i]
		if s.seq == 0 || s.a == a && s.b == b {
			return s.seq
		}
	}
}
