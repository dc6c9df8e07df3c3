// Package parquetiotest makes file schemas and batches for tests of what writes or assembles row groups.
package parquetiotest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/schema"
)

// Schema has a column of every kind, nested ones included, between the metadata columns and _row_id.
func Schema() *schema.Schema {
	field := func(id int32, name string, t schema.Type) schema.Field {
		return schema.Field{ID: id, Name: name, Type: t}
	}
	need := func(f schema.Field) schema.Field { f.Required = true; return f }
	prim := func(k schema.Kind) schema.Type { return schema.Type{Kind: k} }
	dec := func(p, s int) schema.Type { return schema.Type{Kind: schema.Decimal, Precision: p, Scale: s} }
	elem := field(21, "element", prim(schema.String))
	key, value := need(field(23, "key", prim(schema.String))), field(24, "value", prim(schema.Long))
	inner := field(30, "element", schema.Type{Kind: schema.Struct, Fields: []schema.Field{
		field(31, "x", prim(schema.Int)), need(field(32, "y", dec(25, 3))),
	}})
	return &schema.Schema{Fields: []schema.Field{
		need(field(schema.PartitionFieldID, schema.PartitionColumn, prim(schema.Int))),
		need(field(schema.OffsetFieldID, schema.OffsetColumn, prim(schema.Long))),
		need(field(schema.TimestampFieldID, schema.TimestampColumn, prim(schema.Timestamptz))),
		field(4, "flag", prim(schema.Boolean)), field(5, "qty", prim(schema.Int)), field(6, "big", prim(schema.Long)),
		field(7, "f32", prim(schema.Float)), field(8, "f64", prim(schema.Double)),
		field(9, "d9", dec(9, 2)), field(10, "d18", dec(18, 4)), field(11, "d38", dec(38, 10)),
		field(12, "day", prim(schema.Date)), field(13, "local", prim(schema.Timestamp)), field(14, "at", prim(schema.Timestamptz)),
		field(15, "status", prim(schema.String)), field(16, "note", prim(schema.String)), field(17, "raw", prim(schema.Binary)),
		field(18, "address", schema.Type{Kind: schema.Struct, Fields: []schema.Field{
			field(19, "city", prim(schema.String)), need(field(33, "zip", prim(schema.Int))),
		}}),
		field(20, "tags", schema.Type{Kind: schema.List, Elem: &elem}),
		field(22, "attrs", schema.Type{Kind: schema.Map, Key: &key, Elem: &value}),
		field(29, "points", schema.Type{Kind: schema.List, Elem: &inner}),
		need(field(schema.RowIDFieldID, schema.RowIDColumn, prim(schema.Long))),
	}}
}

// Batch appends rows random rows to a new batch of s. The same r gives the same rows.
func Batch(r *rand.Rand, s *schema.Schema, rows int) *column.Batch {
	b := column.NewBatch(s)
	g := generator{r: r, b: b, offset: int64(r.IntN(1 << 30))}
	for range rows {
		b.BeginRow()
		g.leaf = 0
		for i := range s.Fields {
			g.field(&s.Fields[i], 0, 0, 0)
		}
		b.EndRow()
		g.offset += 1 + int64(r.IntN(3))
	}
	return b
}

type generator struct {
	r      *rand.Rand
	b      *column.Batch
	leaf   int
	offset int64
}

// field appends one value of f. def is the level of what is present above it, rep the level of the slot, depth
// the number of repeated ancestors.
func (g *generator) field(f *schema.Field, def, rep, depth uint8) {
	if !f.Required {
		if g.r.IntN(8) == 0 {
			g.absent(f, def, rep)
			return
		}
		def++
	}
	switch f.Type.Kind {
	case schema.Struct:
		for i := range f.Type.Fields {
			g.field(&f.Type.Fields[i], def, rep, depth)
		}
	case schema.List:
		g.repeated([]*schema.Field{f.Type.Elem}, def, rep, depth+1)
	case schema.Map:
		g.repeated([]*schema.Field{f.Type.Key, f.Type.Elem}, def, rep, depth+1)
	default:
		l := g.b.Leaves[g.leaf]
		g.leaf++
		l.Present(rep)
		g.value(f, l)
	}
}

func (g *generator) repeated(parts []*schema.Field, def, rep, depth uint8) {
	n := g.r.IntN(4)
	at := g.leaf
	if n == 0 {
		for _, p := range parts {
			g.absent(p, def, rep)
		}
		return
	}
	for i := range n {
		g.leaf = at
		level := rep
		if i > 0 {
			level = depth
		}
		for _, p := range parts {
			g.field(p, def+1, level, depth)
		}
	}
}

func (g *generator) absent(f *schema.Field, def, rep uint8) {
	switch f.Type.Kind {
	case schema.Struct:
		for i := range f.Type.Fields {
			g.absent(&f.Type.Fields[i], def, rep)
		}
	case schema.List:
		g.absent(f.Type.Elem, def, rep)
	case schema.Map:
		g.absent(f.Type.Key, def, rep)
		g.absent(f.Type.Elem, def, rep)
	default:
		g.b.Leaves[g.leaf].Null(def, rep)
		g.leaf++
	}
}

func (g *generator) value(f *schema.Field, l *column.Leaf) {
	switch l.Kind {
	case column.Bool:
		l.Bools = append(l.Bools, g.r.IntN(3) == 0)
	case column.Int32:
		l.Int32s = append(l.Int32s, int32(g.r.IntN(1000)-500))
		if f.ID == schema.PartitionFieldID {
			l.Int32s[len(l.Int32s)-1] = 3
		}
	case column.Int64:
		l.Int64s = append(l.Int64s, g.int64(f))
	case column.Float32:
		l.Float32s = append(l.Float32s, float32(g.r.NormFloat64()))
	case column.Float64:
		l.Float64s = append(l.Float64s, math.Round(g.r.NormFloat64()*4)/4)
	case column.Fixed:
		g.fixed(l)
	default:
		l.AppendBytes(g.text(f))
	}
}

func (g *generator) int64(f *schema.Field) int64 {
	switch f.ID {
	case schema.OffsetFieldID:
		return g.offset
	case schema.TimestampFieldID:
		return 1_760_000_000_000_000 + g.offset*1000
	case schema.RowIDFieldID:
		return 3<<44 | g.offset
	default:
		return int64(g.r.Uint64()) >> g.r.IntN(60) / 10
	}
}

// fixed appends a number of up to 62 bits, sign-extended.
func (g *generator) fixed(l *column.Leaf) {
	v := int64(g.r.Uint64()) >> (2 + g.r.IntN(50))
	fill := byte(0)
	if v < 0 {
		fill = 0xff
	}
	for range l.FixedLen - 8 {
		l.Data = append(l.Data, fill)
	}
	l.Data = binary.BigEndian.AppendUint64(l.Data, uint64(v))
}

func (g *generator) text(f *schema.Field) []byte {
	switch {
	case f.Type.Kind == schema.Binary:
		v := make([]byte, g.r.IntN(24))
		for i := range v {
			v[i] = byte(g.r.Uint32())
		}
		return v
	case f.Name == "status":
		return fmt.Appendf(nil, "status-%d", g.r.IntN(40))
	case g.r.IntN(16) == 0:
		return []byte{}
	default:
		return fmt.Appendf(nil, "größe %016x and %d more words €", g.r.Uint64(), g.r.IntN(1000))
	}
}
