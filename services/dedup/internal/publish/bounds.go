package publish

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"github.com/frazil-io/frazil/libs/schema"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// kinds is the kind of every primitive field of a file, by id: how its bounds compare.
type kinds map[int32]schema.Kind

// kindsOf takes the kinds from a table schema.
func kindsOf(s *schema.Schema) kinds {
	k := kinds{schema.RowIDFieldID: schema.Long}
	k.add(s.Fields)
	return k
}

func (k kinds) add(fields []schema.Field) {
	for i := range fields {
		t := &fields[i].Type
		k[fields[i].ID] = t.Kind
		k.add(t.Fields)
		if t.Elem != nil {
			k.add([]schema.Field{*t.Elem})
		}
		if t.Key != nil {
			k.add([]schema.Field{*t.Key})
		}
	}
}

// mergeBounds answers what a file's manifest entry says about its columns, from what was recorded of its row
// groups. A bound that one row group with values lacks is lacking in the file.
func mergeBounds(k kinds, groups []*typesv1.RowGroup) []*typesv1.ColumnBounds {
	var out []*typesv1.ColumnBounds
	at := map[int32]*typesv1.ColumnBounds{}
	lacks := map[int32]*[2]bool{}
	for _, g := range groups {
		for _, c := range g.GetColumns() {
			m, ok := at[c.GetFieldId()]
			if !ok {
				m = &typesv1.ColumnBounds{FieldId: c.GetFieldId()}
				at[c.GetFieldId()], lacks[c.GetFieldId()] = m, &[2]bool{}
				out = append(out, m)
			}
			m.ValueCount += c.GetValueCount()
			m.NullCount += c.GetNullCount()
			if c.GetValueCount() > c.GetNullCount() {
				l := lacks[c.GetFieldId()]
				l[0], l[1] = l[0] || c.Lower == nil, l[1] || c.Upper == nil
			}
			kind := k[c.GetFieldId()]
			if c.Lower != nil && (m.Lower == nil || compareBounds(kind, c.Lower, m.Lower) < 0) {
				m.Lower = c.Lower
			}
			if c.Upper != nil && (m.Upper == nil || compareBounds(kind, c.Upper, m.Upper) > 0) {
				m.Upper = c.Upper
			}
		}
	}
	for _, m := range out {
		if lacks[m.GetFieldId()][0] {
			m.Lower = nil
		}
		if lacks[m.GetFieldId()][1] {
			m.Upper = nil
		}
	}
	return out
}

// compareBounds orders two values in Iceberg's single-value serialisation (spec, Appendix D).
func compareBounds(k schema.Kind, a, b []byte) int {
	switch {
	case len(a) == 4 && len(b) == 4 && (k == schema.Int || k == schema.Date):
		return cmp.Compare(int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
	case len(a) == 8 && len(b) == 8 && (k == schema.Long || k == schema.Timestamp || k == schema.Timestamptz):
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
	case len(a) == 4 && len(b) == 4 && k == schema.Float:
		return cmp.Compare(math.Float32frombits(binary.LittleEndian.Uint32(a)), math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case len(a) == 8 && len(b) == 8 && k == schema.Double:
		return cmp.Compare(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case k == schema.Decimal:
		return compareDecimals(a, b)
	}
	return bytes.Compare(a, b)
}

// compareDecimals orders two's complement numbers, big endian, of any length.
func compareDecimals(a, b []byte) int {
	n := max(len(a), len(b), 1)
	x, y := widen(a, n), widen(b, n)
	x[0] ^= 0x80
	y[0] ^= 0x80
	return bytes.Compare(x, y)
}

func widen(v []byte, n int) []byte {
	out := make([]byte, n)
	if len(v) > 0 && v[0]&0x80 != 0 {
		for i := range out {
			out[i] = 0xff
		}
	}
	copy(out[n-len(v):], v)
	return out
}
