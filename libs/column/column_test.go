package column_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/schema"
)

func kind(k schema.Kind) schema.Type { return schema.Type{Kind: k} }

// every has a column of each storage, and nested ones.
func every() *schema.Schema {
	list := schema.Type{Kind: schema.List, Elem: &schema.Field{ID: 21, Name: "element", Type: kind(schema.Int)}}
	return &schema.Schema{Fields: []schema.Field{
		{ID: 1, Name: "b", Type: kind(schema.Boolean)},
		{ID: 2, Name: "i", Type: kind(schema.Int), Required: true},
		{ID: 3, Name: "l", Type: kind(schema.Long)},
		{ID: 4, Name: "f", Type: kind(schema.Float)},
		{ID: 5, Name: "d", Type: kind(schema.Double)},
		{ID: 6, Name: "s", Type: kind(schema.String)},
		{ID: 7, Name: "dec", Type: schema.Type{Kind: schema.Decimal, Precision: 30, Scale: 2}},
		{ID: 8, Name: "list", Type: list},
		{ID: 9, Name: "map", Type: schema.Type{Kind: schema.Map, Key: &schema.Field{ID: 22, Name: "key", Type: kind(schema.String), Required: true},
			Elem: &schema.Field{ID: 23, Name: "value", Type: list}}},
		{ID: 10, Name: "struct", Type: schema.Type{Kind: schema.Struct, Fields: []schema.Field{
			{ID: 24, Name: "x", Type: kind(schema.Date)}, {ID: 25, Name: "y", Type: kind(schema.Binary), Required: true}}}},
	}}
}

// Levels as Dremel defines them: one definition level for each optional and each repeated ancestor.
func TestLeavesAndLevels(t *testing.T) {
	b := column.NewBatch(every())
	want := []column.Leaf{
		{FieldID: 1, Kind: column.Bool, MaxDef: 1},
		{FieldID: 2, Kind: column.Int32},
		{FieldID: 3, Kind: column.Int64, MaxDef: 1},
		{FieldID: 4, Kind: column.Float32, MaxDef: 1},
		{FieldID: 5, Kind: column.Float64, MaxDef: 1},
		{FieldID: 6, Kind: column.Bytes, MaxDef: 1},
		{FieldID: 7, Kind: column.Fixed, FixedLen: 13, MaxDef: 1},
		{FieldID: 21, Kind: column.Int32, MaxDef: 3, MaxRep: 1},
		{FieldID: 22, Kind: column.Bytes, MaxDef: 2, MaxRep: 1},
		{FieldID: 21, Kind: column.Int32, MaxDef: 5, MaxRep: 2},
		{FieldID: 24, Kind: column.Int32, MaxDef: 2},
		{FieldID: 25, Kind: column.Bytes, MaxDef: 1},
	}
	if len(b.Leaves) != len(want) {
		t.Fatalf("%d leaves, want %d", len(b.Leaves), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(*b.Leaves[i], want[i]) {
			t.Errorf("leaf %d: %+v, want %+v", i, *b.Leaves[i], want[i])
		}
	}
}

// The least length whose two's complement holds 10^p - 1 (Iceberg spec, Appendix A).
func TestStorageOfDecimals(t *testing.T) {
	for p := 1; p <= 38; p++ {
		k, n := column.Storage(schema.Type{Kind: schema.Decimal, Precision: p})
		bits := float64(p)*3.3219280948873626 + 1 // log2(10^p) and the sign
		switch {
		case p <= 9 && k != column.Int32, p > 9 && p <= 18 && k != column.Int64, p > 18 && k != column.Fixed:
			t.Errorf("precision %d: kind %d", p, k)
		case p > 18 && (float64(8*n) < bits || float64(8*(n-1)) >= bits):
			t.Errorf("precision %d: %d bytes for %.1f bits", p, n, bits)
		}
	}
}

// fill appends a random row, or part of one.
func fill(b *column.Batch, r *rand.Rand, leaves int) {
	for _, l := range b.Leaves[:leaves] {
		for slot := range 1 + r.IntN(3) {
			rep := uint8(min(slot, int(l.MaxRep)))
			if slot > 0 && l.MaxRep == 0 {
				break
			}
			if l.MaxDef > 0 && r.IntN(3) == 0 {
				l.Null(uint8(r.IntN(int(l.MaxDef))), rep)
				continue
			}
			l.Present(rep)
			switch l.Kind {
			case column.Bool:
				l.Bools = append(l.Bools, r.IntN(2) == 0)
			case column.Int32:
				l.Int32s = append(l.Int32s, r.Int32())
			case column.Int64:
				l.Int64s = append(l.Int64s, r.Int64())
			case column.Float32:
				l.Float32s = append(l.Float32s, r.Float32())
			case column.Float64:
				l.Float64s = append(l.Float64s, r.Float64())
			case column.Bytes:
				l.AppendBytes(make([]byte, r.IntN(4)))
			default:
				l.Data = append(l.Data, make([]byte, l.FixedLen)...)
			}
		}
	}
}

// A batch with rolled back rows is the batch of the other rows alone.
func TestRollbackLeavesNoTrace(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	b, want := column.NewBatch(every()), column.NewBatch(every())
	for round := range 3 {
		b.Reset()
		want.Reset()
		for range 100 {
			rowSeed := r.Uint64()
			b.BeginRow()
			if r.IntN(2) == 0 {
				fill(b, rand.New(rand.NewPCG(rowSeed, 0)), r.IntN(len(b.Leaves)+1))
				b.Rollback()
				continue
			}
			fill(b, rand.New(rand.NewPCG(rowSeed, 0)), len(b.Leaves))
			b.EndRow()
			want.BeginRow()
			fill(want, rand.New(rand.NewPCG(rowSeed, 0)), len(b.Leaves))
			want.EndRow()
		}
		if b.Rows != want.Rows {
			t.Fatalf("seed %d round %d: %d rows, want %d", seed, round, b.Rows, want.Rows)
		}
		for i := range b.Leaves {
			if !equal(b.Leaves[i], want.Leaves[i]) {
				t.Fatalf("seed %d round %d: leaf %d differs", seed, round, i)
			}
		}
	}
}

func equal(a, b *column.Leaf) bool {
	if a.Len() != b.Len() || len(a.Def) != len(b.Def) || len(a.Rep) != len(b.Rep) || len(a.Data) != len(b.Data) {
		return false
	}
	if a.Kind == column.Bytes || a.Kind == column.Fixed {
		for i := range a.Len() {
			if string(a.Value(i)) != string(b.Value(i)) {
				return false
			}
		}
	}
	same := func(x, y any) bool { // empty and nil are the same here
		return reflect.ValueOf(x).Len() == 0 && reflect.ValueOf(y).Len() == 0 || reflect.DeepEqual(x, y)
	}
	return same(a.Def, b.Def) && same(a.Rep, b.Rep) && same(a.Bools, b.Bools) && same(a.Int32s, b.Int32s) &&
		same(a.Int64s, b.Int64s) && same(a.Float32s, b.Float32s) && same(a.Float64s, b.Float64s) && same(a.Ends, b.Ends)
}
