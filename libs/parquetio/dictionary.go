package parquetio

import (
	"hash/maphash"
	"math/bits"
)

// dictionary is a leaf's distinct values: the position of the first of each, and the number of every value. It lives
// until the enumerator that made it makes the next.
type dictionary struct {
	first   []int32
	indexes []int32
}

// hashKey makes hashes that nobody who writes the values can foresee. Nothing that is written depends on it: it decides
// where an enumerator looks for a value, not which number the value gets.
type hashKey struct {
	seed maphash.Seed
	a, b uint64
}

func newHashKey() hashKey {
	seed := maphash.MakeSeed()
	return hashKey{seed, maphash.Comparable(seed, 1), maphash.Comparable(seed, 2)}
}

func (k hashKey) bytes(v []byte) uint64 { return maphash.Bytes(k.seed, v) }

func (k hashKey) number(v uint64) uint64 {
	hi, lo := bits.Mul64(v^k.a, k.b|1)
	return hi ^ lo
}

// firstSlots is the size of an enumerator's table before it grows, a power of two.
const firstSlots = 4 * dictProbe

// enumerator numbers values by first appearance. Its memory is used again for the next leaf.
type enumerator struct {
	key   hashKey
	slots []int32 // open addressing: the number of a value plus 1, 0 where none is; at most half full
	dict  dictionary
}

// distinct numbers the values of v; nil when a dictionary would not pay, because they are mostly different or of a type
// that has none.
func (e *enumerator) distinct(v vector) *dictionary {
	if !v.hashable() {
		return nil
	}
	d := &e.dict
	d.first, d.indexes = d.first[:0], d.indexes[:0]
	e.clear(firstSlots)
	for i := range v.len() {
		at := e.find(v, i)
		number := e.slots[at] - 1
		if number < 0 {
			number = int32(len(d.first))
			d.first = append(d.first, int32(i))
			if len(d.first) > dictDistinct || i >= dictProbe && 2*len(d.first) > i {
				return nil
			}
			e.slots[at] = number + 1
			if 2*len(d.first) > len(e.slots) {
				e.grow(v)
			}
		}
		d.indexes = append(d.indexes, number)
	}
	return d
}

// find answers the slot of value i, or the free one where it belongs.
func (e *enumerator) find(v vector, i int) int {
	mask := len(e.slots) - 1
	at := int(v.hash(e.key, i)) & mask
	for e.slots[at] != 0 && !v.equal(int(e.dict.first[e.slots[at]-1]), i) {
		at = (at + 1) & mask
	}
	return at
}

func (e *enumerator) grow(v vector) {
	e.clear(2 * len(e.slots))
	for number, i := range e.dict.first {
		e.slots[e.find(v, int(i))] = int32(number) + 1
	}
}

// clear makes n slots that hold nothing.
func (e *enumerator) clear(n int) {
	if cap(e.slots) < n {
		e.slots = make([]int32, n)
		return
	}
	e.slots = e.slots[:n]
	clear(e.slots)
}
