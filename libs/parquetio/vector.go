package parquetio

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"github.com/frazil-io/frazil/libs/column"
)

// vector is the stored values of one leaf as the page writer sees them. Ranges are half-open.
type vector interface {
	len() int
	// size is the length of value i in PLAIN, and total that of all values.
	size(i int) int
	total() int
	// plain appends values [from, to) in PLAIN.
	plain(dst []byte, from, to int) []byte
	// bounds is the least and the greatest of values [from, to).
	bounds(from, to int) bounds
	// compare orders two bounds.
	compare(a, b []byte) int
	// hashable says that equal is an equivalence that keeps every bit, so that values may go into a dictionary.
	hashable() bool
	hash(k hashKey, i int) uint64
	equal(i, j int) bool
}

// bounds are values without their length prefix: little-endian, or the bytes themselves.
type bounds struct {
	min, max []byte
	ok       bool // there is a value, and none is NaN
	nan      bool
}

// newVector looks at a leaf. The vector aliases it.
func newVector(l *column.Leaf) vector {
	switch l.Kind {
	case column.Bool:
		return bools(l.Bools)
	case column.Int32:
		return numbers[int32]{l.Int32s, 4, func(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) },
			func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) }}
	case column.Int64:
		return numbers[int64]{l.Int64s, 8, func(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) },
			func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }}
	case column.Float32:
		return numbers[float32]{l.Float32s, 4, func(b []byte, v float32) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }}
	case column.Float64:
		return numbers[float64]{l.Float64s, 8, func(b []byte, v float64) []byte {
			return binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }}
	default:
		return blobs{l}
	}
}

type number interface {
	int32 | int64 | float32 | float64
}

type numbers[T number] struct {
	v     []T
	width int
	put   func([]byte, T) []byte
	get   func([]byte) T
}

func (n numbers[T]) len() int            { return len(n.v) }
func (n numbers[T]) size(int) int        { return n.width }
func (n numbers[T]) total() int          { return len(n.v) * n.width }
func (n numbers[T]) equal(i, j int) bool { return n.v[i] == n.v[j] }

func (n numbers[T]) plain(dst []byte, from, to int) []byte {
	for _, v := range n.v[from:to] {
		dst = n.put(dst, v)
	}
	return dst
}

// bounds follows the Parquet format for zeros ("ColumnOrder"): a least value of +0 is written as -0 and a greatest
// of -0 as +0, since the two compare as equal.
func (n numbers[T]) bounds(from, to int) bounds {
	if from == to {
		return bounds{}
	}
	lo, hi := n.v[from], n.v[from]
	for _, v := range n.v[from:to] {
		if v != v {
			return bounds{nan: true}
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	out := bounds{min: n.put(nil, lo), max: n.put(nil, hi), ok: true}
	if _, isFloat := any(lo).(float32); isFloat || isFloat64(lo) {
		if lo == 0 {
			out.min[n.width-1] = 0x80
		}
		if hi == 0 {
			out.max[n.width-1] = 0
		}
	}
	return out
}

func isFloat64(v any) bool {
	_, ok := v.(float64)
	return ok
}

func (n numbers[T]) compare(a, b []byte) int { return cmp.Compare(n.get(a), n.get(b)) }

// hashable never takes floats: NaN is unequal to itself, and -0 would become +0.
func (n numbers[T]) hashable() bool {
	var zero T
	switch any(zero).(type) {
	case float32, float64:
		return false
	}
	return true
}

func (n numbers[T]) hash(k hashKey, i int) uint64 { return k.number(uint64(n.v[i])) }

type bools []bool

func (b bools) len() int                 { return len(b) }
func (b bools) size(int) int             { return 1 }
func (b bools) total() int               { return len(b) }
func (b bools) hashable() bool           { return false }
func (b bools) hash(hashKey, int) uint64 { return 0 }
func (b bools) equal(i, j int) bool      { return b[i] == b[j] }

// plain packs bits, the least significant first.
func (b bools) plain(dst []byte, from, to int) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, (to-from+7)/8)...)
	for i, v := range b[from:to] {
		if v {
			dst[at+i/8] |= 1 << (i % 8)
		}
	}
	return dst
}

func (b bools) bounds(from, to int) bounds {
	out := bounds{ok: from < to, min: []byte{1}, max: []byte{0}}
	for _, v := range b[from:to] {
		if v {
			out.max[0] = 1
		} else {
			out.min[0] = 0
		}
	}
	return out
}

func (b bools) compare(x, y []byte) int { return bytes.Compare(x, y) }

// blobs are Bytes and Fixed leaves. Bytes order as unsigned bytes; Fixed holds decimals and orders as big-endian
// two's complement.
type blobs struct{ l *column.Leaf }

func (b blobs) len() int { return b.l.Len() }

func (b blobs) size(i int) int {
	if b.l.Kind == column.Fixed {
		return b.l.FixedLen
	}
	return 4 + len(b.l.Value(i))
}

func (b blobs) total() int { return len(b.l.Data) + 4*len(b.l.Ends) }

func (b blobs) hashable() bool { return true }

func (b blobs) hash(k hashKey, i int) uint64 { return k.bytes(b.l.Value(i)) }

func (b blobs) equal(i, j int) bool { return bytes.Equal(b.l.Value(i), b.l.Value(j)) }

func (b blobs) plain(dst []byte, from, to int) []byte {
	if b.l.Kind == column.Fixed {
		return append(dst, b.l.Data[from*b.l.FixedLen:to*b.l.FixedLen]...)
	}
	for i := from; i < to; i++ {
		v := b.l.Value(i)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v)))
		dst = append(dst, v...)
	}
	return dst
}

func (b blobs) bounds(from, to int) bounds {
	if from == to {
		return bounds{}
	}
	lo, hi := b.l.Value(from), b.l.Value(from)
	for i := from + 1; i < to; i++ {
		v := b.l.Value(i)
		if b.compare(v, lo) < 0 {
			lo = v
		} else if b.compare(v, hi) > 0 {
			hi = v
		}
	}
	return bounds{min: append([]byte{}, lo...), max: append([]byte{}, hi...), ok: true}
}

func (b blobs) compare(x, y []byte) int {
	if b.l.Kind == column.Fixed && len(x) > 0 && len(y) > 0 && (x[0]^y[0])&0x80 != 0 {
		return cmp.Compare(y[0]&0x80, x[0]&0x80)
	}
	return bytes.Compare(x, y)
}
