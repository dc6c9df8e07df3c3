package decode

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/frazil-io/frazil/libs/change"
	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/schema"
)

// sink takes the values that a reader finds and puts them where the program says: into the columns of the batch or
// into the key. It is shared by the readers, so that a value means the same in every format.
type sink struct {
	leaves    []*column.Leaf
	key       *change.Encoder
	decDigits []byte // scratch of decimals
	decText   []byte // scratch of their text

	lacking uint64 // key fields, by index, that are columns which the value lacks
}

// placeholder is what Debezium puts for an unchanged large value (unavailable.value.placeholder's default).
const placeholder = "__debezium_unavailable_value"

// placeholderUUID is how the placeholder looks in a list of UUIDs: Java's UUID.nameUUIDFromBytes of it.
const placeholderUUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"

// Reasons that several readers give.
var (
	errNoKey    = unfit("no key")
	errKeyShape = unfit("the key has other fields than the table's key")
)

func isPlaceholder(v []byte) bool { return len(v) == len(placeholder) && string(v) == placeholder }

func (n *node) placeholderError() error {
	return unfit("column %q holds Debezium's placeholder for an unchanged value, which is not resolved; "+
		"let the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL)", n.label)
}

// null stores a null.
func (s *sink) null(n *node, rep uint8) error {
	switch n.dest {
	case toNothing:
		return nil
	case toKey:
		if !n.optional {
			return errNoKey
		}
		s.key.Null(n.key)
		return nil
	default:
	}
	if !n.optional {
		return bad("column %q: null where a value is required", n.label)
	}
	for _, l := range s.leaves[n.leaf : n.leaf+n.leaves] {
		l.Null(n.def-1, rep)
	}
	return nil
}

// absent stores what a column is when the record lacks it: null, or later the key's field.
func (s *sink) absent(n *node, rep uint8) error {
	if n.dest == toKey {
		return errKeyShape
	}
	if n.rowKey > 0 {
		s.lacking |= 1 << (n.rowKey - 1)
		return nil
	}
	return s.null(n, rep)
}

// absentAll does so for the columns that a record's schema lacks.
func (s *sink) absentAll(n *node, rep uint8) error {
	for _, m := range n.missing {
		if err := s.absent(m, rep); err != nil {
			return err
		}
	}
	return nil
}

// empty stores a list or map without elements.
func (s *sink) empty(n *node, rep uint8) {
	if n.dest == toLeaf {
		for _, l := range s.leaves[n.leaf : n.leaf+n.leaves] {
			l.Null(n.def, rep)
		}
	}
}

func (s *sink) putBool(n *node, v bool, rep uint8) error {
	switch n.dest {
	case toKey:
		s.key.Bool(n.key, v)
	case toLeaf:
		l := s.leaves[n.leaf]
		l.Present(rep)
		l.Bools = append(l.Bools, v)
	default:
	}
	return nil
}

// putInt stores an integer of the wire after its conversion.
func (s *sink) putInt(n *node, v int64, rep uint8) error {
	if n.conv != convNone {
		var ok bool
		if v, ok = convertInt(n.conv, v); !ok {
			return bad("column %q: infinity, or a time out of range", n.label)
		}
	}
	switch n.dest {
	case toNothing:
		return nil
	case toKey:
		return s.keyInt(n, v)
	default:
	}
	l := s.leaves[n.leaf]
	switch n.store {
	case column.Int64:
		l.Present(rep)
		l.Int64s = append(l.Int64s, v)
	case column.Int32:
		if v != int64(int32(v)) {
			return bad("column %q: an integer outside 32 bits", n.label)
		}
		l.Present(rep)
		l.Int32s = append(l.Int32s, int32(v))
	default:
		return bad("column %q: an integer where %s belongs", n.label, &schema.Type{Kind: n.kind})
	}
	return nil
}

func (s *sink) keyInt(n *node, v int64) error {
	switch n.kind {
	case schema.Date:
		s.key.Date(n.key, v)
	case schema.Timestamp:
		s.key.Timestamp(n.key, v)
	case schema.Timestamptz:
		s.key.Timestamptz(n.key, v)
	case schema.Int:
		if v != int64(int32(v)) {
			return bad("key field %q: an integer outside 32 bits", n.label)
		}
		s.key.Int(n.key, v)
	default:
		s.key.Int(n.key, v)
	}
	return nil
}

func convertInt(c conv, v int64) (out int64, ok bool) {
	switch c {
	case convDate:
		return v, v != infinityDays && v != negInfinityDays
	case convMillis:
		if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
			return 0, false
		}
		v *= 1000
	case convNanos:
		return floorDiv(v, 1000), true
	default:
	}
	return v, v != infinityMicros && v != negInfinityMicros
}

// putFloat stores a floating-point number; a double of the wire fits a float column only if it is one.
func (s *sink) putFloat(n *node, v float64, rep uint8) error {
	switch n.dest {
	case toNothing:
		return nil
	case toKey:
		s.key.Float(n.key, v)
		return nil
	default:
	}
	l := s.leaves[n.leaf]
	switch n.store {
	case column.Float64:
		l.Present(rep)
		l.Float64s = append(l.Float64s, v)
	case column.Float32:
		l.Present(rep)
		l.Float32s = append(l.Float32s, float32(v))
	default:
		return bad("column %q: a fraction where %s belongs", n.label, &schema.Type{Kind: n.kind})
	}
	return nil
}

// putText stores text, which must be UTF-8 already, after its conversion.
func (s *sink) putText(n *node, v []byte, rep uint8) error {
	switch n.conv {
	case convNone:
		if n.dest == toLeaf {
			return s.leafText(n, v, rep)
		}
		if n.dest == toKey {
			s.key.Text(n.key, v)
		}
		return nil
	case convZoned, convIsoTimestamp:
		if isPlaceholder(v) {
			return n.placeholderError()
		}
		micros, ok := parseTimestamp(v, n.conv == convZoned)
		if !ok {
			return bad("column %q: text that is no timestamp, infinity, or a time out of range", n.label)
		}
		return s.putConverted(n, micros, rep)
	case convIsoDate:
		if isPlaceholder(v) {
			return n.placeholderError()
		}
		days, ok := parseDate(v)
		if !ok || days != int64(int32(days)) {
			return bad("column %q: text that is no date, or a date out of range", n.label)
		}
		return s.putConverted(n, days, rep)
	default:
		return bad("column %q: text where %s belongs", n.label, &schema.Type{Kind: n.kind})
	}
}

func (s *sink) leafText(n *node, v []byte, rep uint8) error {
	if isPlaceholder(v) || (n.listed && string(v) == placeholderUUID) {
		return n.placeholderError()
	}
	if n.store != column.Bytes {
		return bad("column %q: text where %s belongs", n.label, &schema.Type{Kind: n.kind})
	}
	l := s.leaves[n.leaf]
	l.Present(rep)
	l.AppendBytes(v)
	return nil
}

// putConverted stores a time that text gave.
func (s *sink) putConverted(n *node, v int64, rep uint8) error {
	switch n.dest {
	case toNothing:
		return nil
	case toKey:
		return s.keyInt(n, v)
	default:
	}
	l := s.leaves[n.leaf]
	l.Present(rep)
	if n.store == column.Int32 {
		l.Int32s = append(l.Int32s, int32(v))
	} else {
		l.Int64s = append(l.Int64s, v)
	}
	return nil
}

// putBytes stores bytes after their conversion.
func (s *sink) putBytes(n *node, v []byte, rep uint8) error {
	if n.dest == toNothing {
		return nil
	}
	if n.dest == toLeaf && isPlaceholder(v) {
		return n.placeholderError()
	}
	if n.conv == convDecimal {
		return s.unscaled(n, v, rep)
	}
	if n.dest == toKey {
		s.key.Bytes(n.key, v)
		return nil
	}
	if n.store != column.Bytes {
		return bad("column %q: bytes where %s belongs", n.label, &schema.Type{Kind: n.kind})
	}
	l := s.leaves[n.leaf]
	l.Present(rep)
	l.AppendBytes(v)
	return nil
}

// unscaled stores a decimal given as big-endian two's complement at the writer's scale.
func (s *sink) unscaled(n *node, v []byte, rep uint8) error {
	if n.dest == toKey || n.store == column.Bytes {
		return s.decimalText(n, v, n.wireScale, rep)
	}
	d, ok := int128Of(v)
	if ok && n.wireScale < n.scale {
		d, ok = d.scaleUp(n.scale - n.wireScale)
	}
	if !ok {
		return bad("column %q: a number of more than %d digits", n.label, n.prec)
	}
	return s.putDecimal(n, d, rep)
}

// putDecimal stores a decimal at the column's scale.
func (s *sink) putDecimal(n *node, d int128, rep uint8) error {
	if !d.fits(n.prec) {
		return bad("column %q: a number of more than %d digits", n.label, n.prec)
	}
	l := s.leaves[n.leaf]
	l.Present(rep)
	switch n.store {
	case column.Int32:
		l.Int32s = append(l.Int32s, int32(d.lo))
	case column.Int64:
		l.Int64s = append(l.Int64s, int64(d.lo))
	default:
		var full [16]byte
		binary.BigEndian.PutUint64(full[:8], uint64(d.hi))
		binary.BigEndian.PutUint64(full[8:], d.lo)
		l.Data = append(l.Data, full[16-l.FixedLen:]...)
	}
	return nil
}

// decimalText stores unscaled * 10^-scale as plain text, or in the key by its value.
func (s *sink) decimalText(n *node, unscaled []byte, scale int, rep uint8) error {
	if len(unscaled) > maxDecimalBytes || scale > maxDecimalScale || scale < -maxDecimalScale {
		return bad("column %q: a number of an absurd size", n.label)
	}
	digits, negative := appendUnscaled(s.decDigits[:0], unscaled)
	s.decDigits = digits
	return s.digitsText(n, negative, digits, scale, rep)
}

func (s *sink) digitsText(n *node, negative bool, digits []byte, scale int, rep uint8) error {
	switch n.dest {
	case toNothing:
		return nil
	case toKey:
		s.key.Decimal(n.key, negative, digits, -scale)
		return nil
	default:
	}
	if len(digits) == 0 {
		digits = append(digits, '0')
	}
	s.decText = appendPlain(s.decText[:0], negative, digits, scale)
	l := s.leaves[n.leaf]
	l.Present(rep)
	l.AppendBytes(s.decText)
	return nil
}

// endList refuses a list of integers that spells the placeholder, one byte an element.
func (s *sink) endList(n *node, count int) error {
	if count != len(placeholder) || n.dest != toLeaf || n.leaves != 1 {
		return nil
	}
	l := s.leaves[n.leaf]
	for i := range count {
		var v int64
		switch {
		case l.Kind == column.Int32 && len(l.Int32s) >= count:
			v = int64(l.Int32s[len(l.Int32s)-count+i])
		case l.Kind == column.Int64 && len(l.Int64s) >= count:
			v = l.Int64s[len(l.Int64s)-count+i]
		default:
			return nil
		}
		if v != int64(placeholder[i]) {
			return nil
		}
	}
	return n.placeholderError()
}

// validText reports whether v is UTF-8.
func validText(v []byte) bool { return utf8.Valid(v) }
