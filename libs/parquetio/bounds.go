package parquetio

import (
	"slices"
	"unicode/utf8"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/schema"
)

// manifestBound is how many characters of a text, or bytes of a binary, a manifest's bound keeps (Iceberg's
// default "truncate(16)").
const manifestBound = 16

// ColumnBounds is what a manifest entry says of one column. Columns inside lists and maps, and _row_id, have none.
type ColumnBounds struct {
	FieldID int32
	// Iceberg single-value serialisation (spec, Appendix D); nil = not stated. An empty text has an empty,
	// non-nil bound. A text or binary is cut to 16 characters or bytes, the upper one rounded up.
	Lower, Upper []byte
	ValueCount   int64 // rows, nulls included
	NullCount    int64
}

func (lf *leaf) icebergBounds(l *column.Leaf, c *chunk) ColumnBounds {
	out := ColumnBounds{FieldID: lf.id, ValueCount: c.column.MetaData.NumValues, NullCount: c.nulls}
	if !c.whole.ok {
		return out
	}
	lo, hi := c.whole.min, c.whole.max
	switch lf.typ.Kind {
	case schema.String:
		out.Lower, out.Upper = textBounds(lo, hi)
	case schema.Binary:
		out.Lower = lo[:min(len(lo), manifestBound)]
		out.Upper = hi
		if len(hi) > manifestBound {
			if out.Upper = raise(hi, manifestBound); len(out.Upper) > manifestBound {
				out.Upper = nil
			}
		}
	case schema.Decimal:
		out.Lower, out.Upper = unscaled(l.Kind, lo), unscaled(l.Kind, hi)
	default:
		out.Lower, out.Upper = lo, hi
	}
	return out
}

// textBounds cuts by code points. Bytes that are not UTF-8 get no bounds: a reader would compare something else.
func textBounds(lo, hi []byte) (lower, upper []byte) {
	if !utf8.Valid(lo) || !utf8.Valid(hi) {
		return nil, nil
	}
	lower = lo[:prefixLen(lo)]
	n := prefixLen(hi)
	if n == len(hi) {
		return lower, hi
	}
	runes := []rune(string(hi[:n]))
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xd800 {
			next = 0xe000 // surrogates are no characters
		}
		if next <= utf8.MaxRune {
			runes[i] = next
			return lower, []byte(string(runes[:i+1]))
		}
	}
	return lower, nil
}

// prefixLen is the length in bytes of the first manifestBound characters.
func prefixLen(v []byte) int {
	n := 0
	for range manifestBound {
		if n == len(v) {
			break
		}
		_, size := utf8.DecodeRune(v[n:])
		n += size
	}
	return n
}

// unscaled is a decimal's shortest big-endian two's complement, from what Parquet stores of it.
func unscaled(k column.Kind, v []byte) []byte {
	be := slices.Clone(v)
	if k != column.Fixed {
		slices.Reverse(be)
	}
	for len(be) > 1 && (be[0] == 0 && be[1]&0x80 == 0 || be[0] == 0xff && be[1]&0x80 != 0) {
		be = be[1:]
	}
	return be
}
