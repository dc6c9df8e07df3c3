// Package column holds the rows of one row group as Parquet leaf columns: what decoders append to and what the
// row-group writer reads. Nothing is boxed and nothing is allocated per row once the buffers have grown.
package column

import "github.com/frazil-io/frazil/libs/schema"

// Kind is the storage of a leaf.
type Kind uint8

// The kinds of storage.
const (
	Bool    Kind = iota + 1
	Int32        // int, date, decimal up to precision 9
	Int64        // long, timestamps, decimal up to precision 18
	Float32      //
	Float64      //
	Bytes        // string, binary
	Fixed        // decimal above precision 18: big-endian two's complement, FixedLen bytes each
)

// Leaf is one Parquet leaf column in Dremel form. One entry in Def (and Rep) per level slot; values are kept
// only for slots whose definition level is MaxDef. A leaf with MaxDef 0 has neither slice.
type Leaf struct {
	FieldID        int32
	Kind           Kind
	FixedLen       int
	MaxDef, MaxRep uint8

	Def []uint8
	Rep []uint8

	Bools    []bool
	Int32s   []int32
	Int64s   []int64
	Float32s []float32
	Float64s []float64
	Data     []byte   // Bytes and Fixed: the values one after the other
	Ends     []uint32 // Bytes: value i is Data[Ends[i-1]:Ends[i]]
}

// Batch is the rows of one row group. Leaves are in the depth-first order of the schema's fields.
// A Batch is used by one goroutine at a time.
type Batch struct {
	Schema *schema.Schema
	Leaves []*Leaf
	Rows   int
	marks  []mark
}

// mark is where a leaf stood at the beginning of the row being appended.
type mark struct {
	levels, values, data int
}

// NewBatch makes an empty batch for a file schema.
func NewBatch(s *schema.Schema) *Batch {
	b := &Batch{Schema: s}
	for i := range s.Fields {
		b.addLeaves(&s.Fields[i], 0, 0)
	}
	b.marks = make([]mark, len(b.Leaves))
	return b
}

func (b *Batch) addLeaves(f *schema.Field, def, rep uint8) {
	if !f.Required {
		def++
	}
	switch f.Type.Kind {
	case schema.Struct:
		for i := range f.Type.Fields {
			b.addLeaves(&f.Type.Fields[i], def, rep)
		}
	case schema.List:
		b.addLeaves(f.Type.Elem, def+1, rep+1)
	case schema.Map:
		b.addLeaves(f.Type.Key, def+1, rep+1)
		b.addLeaves(f.Type.Elem, def+1, rep+1)
	default:
		kind, fixed := Storage(f.Type)
		b.Leaves = append(b.Leaves, &Leaf{FieldID: f.ID, Kind: kind, FixedLen: fixed, MaxDef: def, MaxRep: rep})
	}
}

// Storage answers how a primitive type is stored, and the length of a value where that is Fixed.
// Iceberg spec, Appendix A, "Parquet".
func Storage(t schema.Type) (k Kind, fixedLen int) {
	switch t.Kind {
	case schema.Boolean:
		return Bool, 0
	case schema.Int, schema.Date:
		return Int32, 0
	case schema.Long, schema.Timestamp, schema.Timestamptz:
		return Int64, 0
	case schema.Float:
		return Float32, 0
	case schema.Double:
		return Float64, 0
	case schema.Decimal:
		switch {
		case t.Precision <= 9:
			return Int32, 0
		case t.Precision <= 18:
			return Int64, 0
		default:
			return Fixed, decimalBytes[t.Precision]
		}
	default:
		return Bytes, 0
	}
}

// decimalBytes is the least number of bytes whose two's complement holds a decimal of that precision.
var decimalBytes = [39]int{
	19: 9, 20: 9, 21: 9, 22: 10, 23: 10, 24: 11, 25: 11, 26: 11, 27: 12, 28: 12, 29: 13, 30: 13, 31: 13,
	32: 14, 33: 14, 34: 15, 35: 15, 36: 16, 37: 16, 38: 16,
}

// BeginRow remembers where the row begins, so that Rollback can take it back.
func (b *Batch) BeginRow() {
	for i, l := range b.Leaves {
		b.marks[i] = mark{len(l.Def), l.Len(), len(l.Data)}
	}
}

// EndRow counts the row.
func (b *Batch) EndRow() { b.Rows++ }

// Rollback takes back everything that was appended since BeginRow.
func (b *Batch) Rollback() {
	for i, l := range b.Leaves {
		l.truncate(b.marks[i])
	}
}

// Reset empties the batch and keeps its buffers.
func (b *Batch) Reset() {
	b.Rows = 0
	for _, l := range b.Leaves {
		l.truncate(mark{})
	}
}

// Len is the number of stored (non-null) values.
func (l *Leaf) Len() int {
	switch l.Kind {
	case Bool:
		return len(l.Bools)
	case Int32:
		return len(l.Int32s)
	case Int64:
		return len(l.Int64s)
	case Float32:
		return len(l.Float32s)
	case Float64:
		return len(l.Float64s)
	case Bytes:
		return len(l.Ends)
	default:
		return len(l.Data) / l.FixedLen
	}
}

// Value is stored value i of a Bytes or Fixed leaf; it aliases the leaf.
func (l *Leaf) Value(i int) []byte {
	if l.Kind == Fixed {
		return l.Data[i*l.FixedLen : (i+1)*l.FixedLen]
	}
	start := uint32(0)
	if i > 0 {
		start = l.Ends[i-1]
	}
	return l.Data[start:l.Ends[i]]
}

// Null appends a slot without a value at definition level def (below MaxDef) and repetition level rep.
func (l *Leaf) Null(def, rep uint8) {
	l.Def = append(l.Def, def)
	if l.MaxRep > 0 {
		l.Rep = append(l.Rep, rep)
	}
}

// Present appends the levels of a slot with a value; the caller appends the value itself.
func (l *Leaf) Present(rep uint8) {
	if l.MaxDef > 0 {
		l.Def = append(l.Def, l.MaxDef)
	}
	if l.MaxRep > 0 {
		l.Rep = append(l.Rep, rep)
	}
}

// AppendBytes stores a value of a Bytes leaf.
func (l *Leaf) AppendBytes(v []byte) {
	l.Data = append(l.Data, v...)
	l.Ends = append(l.Ends, uint32(len(l.Data)))
}

func (l *Leaf) truncate(m mark) {
	if l.MaxDef > 0 {
		l.Def = l.Def[:m.levels]
	}
	if l.MaxRep > 0 {
		l.Rep = l.Rep[:min(m.levels, len(l.Rep))]
	}
	switch l.Kind {
	case Bool:
		l.Bools = l.Bools[:m.values]
	case Int32:
		l.Int32s = l.Int32s[:m.values]
	case Int64:
		l.Int64s = l.Int64s[:m.values]
	case Float32:
		l.Float32s = l.Float32s[:m.values]
	case Float64:
		l.Float64s = l.Float64s[:m.values]
	case Bytes:
		l.Ends = l.Ends[:m.values]
	default:
	}
	l.Data = l.Data[:m.data]
}
