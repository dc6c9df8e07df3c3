// Package change is the identity of a record: the canonical encoding of its decoded key, and the keyed hash of it.
// Two records have the same identity when their keys are equal by value, whatever the bytes on the wire: field
// order, whitespace, the id of an Avro schema and the width of an integer do not matter.
package change

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// tag is the logical type of a key field's value. Values are part of the identity of every record: never renumber.
type tag byte

const (
	tagNull tag = iota + 1
	tagBool
	tagInt         // every width, as 8 bytes big-endian
	tagFloat       // as IEEE 754 double, 8 bytes big-endian; one zero, one NaN
	tagDecimal     // by numeric value: exponent and digits without zeros at either end
	tagDate        // days, as 8 bytes
	tagTimestamp   // microseconds without zone, as 8 bytes
	tagTimestamptz // microseconds UTC, as 8 bytes
	tagText        // UTF-8, not normalised
	tagBytes
)

// Encoder builds the canonical encoding of one key after another:
//
//	key   = field in ascending byte order of the names
//	field = length of name (uvarint), name, tag (1 byte), value
//	value = nothing | 1 byte | 8 bytes | length (uvarint) and that many bytes, by tag
//
// Set each field once per key, in any order, by its index in the names given to NewEncoder. Setting a field again
// replaces it. An Encoder is used by one goroutine at a time and allocates nothing once its buffer has grown.
type Encoder struct {
	names  []string
	order  []int    // indexes of names by ascending name
	prefix [][]byte // length and name, by index
	values []span   // by index
	buf    []byte
}

// span is where a value lies in buf; an empty one is not set.
type span struct{ start, end int }

// NewEncoder makes an Encoder for keys with these fields. Duplicate names are fault.ErrInvalid, and so is a key
// without fields: it would make one identity of all records.
func NewEncoder(names []string) (*Encoder, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("a key without fields: %w", fault.ErrInvalid)
	}
	e := &Encoder{names: slices.Clone(names), values: make([]span, len(names))}
	for i, name := range names {
		e.order = append(e.order, i)
		e.prefix = append(e.prefix, append(binary.AppendUvarint(nil, uint64(len(name))), name...))
	}
	slices.SortFunc(e.order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	for i := 1; i < len(e.order); i++ {
		if names[e.order[i]] == names[e.order[i-1]] {
			return nil, fmt.Errorf("key field %q occurs twice: %w", names[e.order[i]], fault.ErrInvalid)
		}
	}
	return e, nil
}

// Reset forgets all fields: the next key begins.
func (e *Encoder) Reset() {
	e.buf = e.buf[:0]
	clear(e.values)
}

// AppendTo appends the canonical encoding to dst. A field that was not set is fault.ErrInvalid.
func (e *Encoder) AppendTo(dst []byte) ([]byte, error) {
	for _, i := range e.order {
		v := e.values[i]
		if v.end == 0 {
			return dst, fmt.Errorf("key lacks field %q: %w", e.names[i], fault.ErrInvalid)
		}
		dst = append(dst, e.prefix[i]...)
		dst = append(dst, e.buf[v.start:v.end]...)
	}
	return dst, nil
}

// Null sets field i to null.
func (e *Encoder) Null(i int) {
	e.begin(i, tagNull)
	e.end(i)
}

// Bool sets field i.
func (e *Encoder) Bool(i int, v bool) {
	e.begin(i, tagBool)
	b := byte(0)
	if v {
		b = 1
	}
	e.buf = append(e.buf, b)
	e.end(i)
}

// Int sets field i to an integer of any width.
func (e *Encoder) Int(i int, v int64) { e.fixed(i, tagInt, uint64(v)) }

// Float sets field i. The zeros are equal, and so are all NaNs.
func (e *Encoder) Float(i int, v float64) {
	switch {
	case v == 0:
		v = 0
	case math.IsNaN(v):
		v = math.NaN()
	}
	e.fixed(i, tagFloat, math.Float64bits(v))
}

// Date sets field i, days since 1970-01-01.
func (e *Encoder) Date(i int, days int64) { e.fixed(i, tagDate, uint64(days)) }

// Timestamp sets field i, microseconds since 1970-01-01 without a zone.
func (e *Encoder) Timestamp(i int, micros int64) { e.fixed(i, tagTimestamp, uint64(micros)) }

// Timestamptz sets field i, microseconds since 1970-01-01 UTC.
func (e *Encoder) Timestamptz(i int, micros int64) { e.fixed(i, tagTimestamptz, uint64(micros)) }

// Text sets field i.
func (e *Encoder) Text(i int, v []byte) { e.variable(i, tagText, v) }

// Bytes sets field i.
func (e *Encoder) Bytes(i int, v []byte) { e.variable(i, tagBytes, v) }

// Decimal sets field i to digits * 10^exponent, negative or not. digits are ASCII; zeros at either end and the
// sign of zero do not matter, so that 1.5, 1.50 and 15e-1 are one value.
func (e *Encoder) Decimal(i int, negative bool, digits []byte, exponent int) {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	if len(digits) == 0 {
		negative, exponent = false, 0
	}
	sign := byte('+')
	if negative {
		sign = '-'
	}
	e.begin(i, tagDecimal)
	e.buf = append(e.buf, sign)
	e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(int64(exponent)))
	e.buf = binary.AppendUvarint(e.buf, uint64(len(digits)))
	e.buf = append(e.buf, digits...)
	e.end(i)
}

func (e *Encoder) fixed(i int, t tag, v uint64) {
	e.begin(i, t)
	e.buf = binary.BigEndian.AppendUint64(e.buf, v)
	e.end(i)
}

func (e *Encoder) variable(i int, t tag, v []byte) {
	e.begin(i, t)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(v)))
	e.buf = append(e.buf, v...)
	e.end(i)
}

func (e *Encoder) begin(i int, t tag) {
	e.values[i].start = len(e.buf)
	e.buf = append(e.buf, byte(t))
}

func (e *Encoder) end(i int) { e.values[i].end = len(e.buf) }
