package parquetio_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/parquetio/parquetiotest"
	"github.com/frazil-io/frazil/libs/schema"
)

func one(t *testing.T, typ schema.Type, fill func(*column.Leaf), rows int) parquetio.RowGroup {
	t.Helper()
	s := &schema.Schema{Fields: []schema.Field{{ID: 9, Name: "a", Type: typ}}}
	b := column.NewBatch(s)
	l := b.Leaves[0]
	fill(l)
	for len(l.Def) < rows {
		l.Def = append(l.Def, 1)
	}
	b.Rows = rows
	return encode(t, encoder(t, s), b)
}

func TestIcebergBounds(t *testing.T) {
	texts := func(v ...string) func(*column.Leaf) {
		return func(l *column.Leaf) {
			for _, s := range v {
				l.Present(0)
				l.AppendBytes([]byte(s))
			}
		}
	}
	kind := func(k schema.Kind) schema.Type { return schema.Type{Kind: k} }
	for _, c := range []struct {
		name         string
		typ          schema.Type
		fill         func(*column.Leaf)
		rows         int
		lower, upper string // hex; "-" = none
	}{
		{"int", kind(schema.Int), func(l *column.Leaf) { l.Int32s = []int32{5, -1} }, 2, "ffffffff", "05000000"},
		{"bool", kind(schema.Boolean), func(l *column.Leaf) { l.Bools = []bool{true, false} }, 2, "00", "01"},
		{"negative zero", kind(schema.Double), func(l *column.Leaf) { l.Float64s = []float64{0} }, 1, "0000000000000080", "0000000000000000"},
		{"short text", kind(schema.String), texts("b", "", "a"), 3, "", hex.EncodeToString([]byte("b"))},
		{"long text", kind(schema.String), texts(strings.Repeat("ä", 17)), 1,
			hex.EncodeToString([]byte(strings.Repeat("ä", 16))), hex.EncodeToString([]byte(strings.Repeat("ä", 15) + "å"))},
		{"no character above", kind(schema.String), texts(strings.Repeat("\U0010ffff", 17)), 1,
			hex.EncodeToString([]byte(strings.Repeat("\U0010ffff", 16))), "-"},
		{"over the surrogates", kind(schema.String), texts(strings.Repeat("\ud7ff", 17)), 1,
			hex.EncodeToString([]byte(strings.Repeat("\ud7ff", 16))), hex.EncodeToString([]byte(strings.Repeat("\ud7ff", 15) + "\ue000"))},
		{"not UTF-8", kind(schema.String), texts("\xff\xfe"), 1, "-", "-"},
		{"long binary", kind(schema.Binary), texts(strings.Repeat("\x01", 15) + "\xff\xff"), 1,
			strings.Repeat("01", 15) + "ff", strings.Repeat("01", 14) + "02"},
		{"binary without a bound above", kind(schema.Binary), texts(strings.Repeat("\xff", 17)), 1, strings.Repeat("ff", 16), "-"},
		{"decimal of 4 bytes", schema.Type{Kind: schema.Decimal, Precision: 9}, func(l *column.Leaf) { l.Int32s = []int32{-129, 128} }, 2, "ff7f", "0080"},
		{"decimal of 9 bytes", schema.Type{Kind: schema.Decimal, Precision: 20}, func(l *column.Leaf) {
			l.Data = append(bytes.Repeat([]byte{0xff}, 9), 0, 0, 0, 0, 0, 0, 0, 1, 0)
		}, 2, "ff", "0100"},
		{"only nulls", kind(schema.Long), func(l *column.Leaf) { l.Null(0, 0) }, 1, "-", "-"},
	} {
		rg := one(t, c.typ, c.fill, c.rows)
		b := rg.Columns[0]
		show := func(v []byte) string {
			if v == nil {
				return "-"
			}
			return hex.EncodeToString(v)
		}
		if show(b.Lower) != c.lower || show(b.Upper) != c.upper || b.ValueCount != int64(c.rows) || b.FieldID != 9 {
			t.Errorf("%s: [%s, %s] of %d, want [%s, %s]", c.name, show(b.Lower), show(b.Upper), b.ValueCount, c.lower, c.upper)
		}
	}
}

func TestBoundsAreStatedForColumnsOutsideListsAndMaps(t *testing.T) {
	s := parquetiotest.Schema()
	rg := encode(t, encoder(t, s), parquetiotest.Batch(newRand(2), s, 500))
	got := map[int32]bool{}
	for _, c := range rg.Columns {
		got[c.FieldID] = true
		if c.ValueCount != 500 || c.NullCount < 0 || c.NullCount > 500 {
			t.Errorf("field %d: %d values, %d nulls", c.FieldID, c.ValueCount, c.NullCount)
		}
	}
	for _, id := range []int32{1, 2, 3, 4, 17, 19, 33} {
		if !got[id] {
			t.Errorf("no bounds for field %d", id)
		}
	}
	for _, id := range []int32{21, 23, 24, 31, 32, schema.RowIDFieldID} {
		if got[id] {
			t.Errorf("bounds for field %d", id)
		}
	}
}

// A page index must never hide a row: every page's bounds hold all its values, cut or not.
func TestColumnIndexBoundsHoldTheirPages(t *testing.T) {
	typ := schema.Type{Kind: schema.String}
	r := newRand(11)
	var all [][]byte
	rg := one(t, typ, func(l *column.Leaf) {
		for range 3000 {
			v := make([]byte, 900+r.IntN(400))
			for i := range v {
				v[i] = byte(0xf0 + r.IntN(16))
			}
			l.Present(0)
			l.AppendBytes(v)
			all = append(all, v)
		}
	}, 3000)
	ci, oi := rg.Meta.ColumnIndexes[0], rg.Meta.OffsetIndexes[0]
	if len(oi.PageLocations) < 3 || len(ci.MinValues) != len(oi.PageLocations) {
		t.Fatalf("%d pages, %d bounds", len(oi.PageLocations), len(ci.MinValues))
	}
	for p := range oi.PageLocations {
		from, to := int(oi.PageLocations[p].FirstRowIndex), len(all)
		if p+1 < len(oi.PageLocations) {
			to = int(oi.PageLocations[p+1].FirstRowIndex)
		}
		if len(ci.MinValues[p]) > 16 || len(ci.MaxValues[p]) > 16 {
			t.Errorf("page %d: bounds of %d and %d bytes", p, len(ci.MinValues[p]), len(ci.MaxValues[p]))
		}
		for _, v := range all[from:to] {
			if bytes.Compare(v, ci.MinValues[p]) < 0 || bytes.Compare(v, ci.MaxValues[p]) > 0 {
				t.Fatalf("page %d does not hold a value of its own", p)
			}
		}
	}
}
