package publish

import (
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/schema"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

func le32(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
func le64(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

func TestBoundsCompareAsTheirTypes(t *testing.T) {
	for _, c := range []struct {
		kind schema.Kind
		low  []byte
		high []byte
	}{
		{schema.Int, le32(-5), le32(3)},
		{schema.Int, le32(255), le32(256)},
		{schema.Long, le64(-1), le64(0)},
		{schema.Timestamptz, le64(255), le64(1 << 20)},
		{schema.Double, le64(int64(math.Float64bits(-2.5))), le64(int64(math.Float64bits(-1)))},
		{schema.Float, le32(int32(math.Float32bits(-2))), le32(int32(math.Float32bits(7)))},
		{schema.Decimal, []byte{0xff}, []byte{0}},
		{schema.Decimal, []byte{0xff, 0x00}, []byte{0x80}}, // -256 and -128
		{schema.Decimal, []byte{0x7f}, []byte{0x01, 0x00}},
		{schema.String, []byte("a"), []byte("aa")},
		{schema.Boolean, []byte{0}, []byte{1}},
	} {
		if compareBounds(c.kind, c.low, c.high) >= 0 || compareBounds(c.kind, c.high, c.low) <= 0 || compareBounds(c.kind, c.low, c.low) != 0 {
			t.Errorf("kind %d: %x is not below %x", c.kind, c.low, c.high)
		}
	}
}

func TestMergedBounds(t *testing.T) {
	col := func(low, high []byte, values, nulls int64) []*typesv1.ColumnBounds {
		return []*typesv1.ColumnBounds{{FieldId: 4, Lower: low, Upper: high, ValueCount: values, NullCount: nulls}}
	}
	k := kinds{4: schema.Long}
	for _, c := range []struct {
		name   string
		groups [][]*typesv1.ColumnBounds
		want   *typesv1.ColumnBounds
	}{
		{"signs", [][]*typesv1.ColumnBounds{col(le64(-3), le64(2), 5, 0), col(le64(-1), le64(9), 5, 1)},
			&typesv1.ColumnBounds{FieldId: 4, Lower: le64(-3), Upper: le64(9), ValueCount: 10, NullCount: 1}},
		{"a group of nulls says nothing", [][]*typesv1.ColumnBounds{col(nil, nil, 5, 5), col(le64(1), le64(9), 5, 0)},
			&typesv1.ColumnBounds{FieldId: 4, Lower: le64(1), Upper: le64(9), ValueCount: 10, NullCount: 5}},
		{"a bound that one group lacks is lacking", [][]*typesv1.ColumnBounds{col(le64(0), nil, 5, 0), col(le64(1), le64(9), 5, 0)},
			&typesv1.ColumnBounds{FieldId: 4, Lower: le64(0), ValueCount: 10}},
		{"only nulls", [][]*typesv1.ColumnBounds{col(nil, nil, 5, 5)}, &typesv1.ColumnBounds{FieldId: 4, ValueCount: 5, NullCount: 5}},
	} {
		var groups []*typesv1.RowGroup
		for _, g := range c.groups {
			groups = append(groups, &typesv1.RowGroup{Columns: g})
		}
		if got := mergeBounds(k, groups); len(got) != 1 || !proto.Equal(got[0], c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
