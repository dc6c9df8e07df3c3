package draintest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/avrofile"
)

// Row is the values of a row by field id: int64, float64, string; absent = null. Decimals are unscaled.
type Row map[int]any

// The columns of every table here.
const (
	ID     = 1  // int, then long; required
	Name   = 2  // string; called label in the second era
	Score  = 3  // float, then double
	Amount = 4  // decimal(9,2), then decimal(18,2)
	Nested = 5  // struct
	Inner  = 6  // nested.inner, int, then long
	Day    = 7  // date
	Part   = 8  // string
	Note   = 9  // string, since the second era
	Extra  = 10 // int, dropped in the second era
)

// Schema answers the schema of an era, 0 or 1. Format version 3 gives Note an initial default.
func Schema(era, version int) *iceberg.Schema {
	inner := iceberg.NestedField{ID: Inner, Name: "inner", Type: iceberg.PrimitiveTypes.Int32}
	f := []iceberg.NestedField{
		{ID: ID, Name: "id", Type: iceberg.PrimitiveTypes.Int32, Required: true},
		{ID: Name, Name: "name", Type: iceberg.PrimitiveTypes.String},
		{ID: Score, Name: "score", Type: iceberg.PrimitiveTypes.Float32},
		{ID: Amount, Name: "amount", Type: iceberg.DecimalTypeOf(9, 2)},
		{ID: Nested, Name: "nested", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{inner}}},
		{ID: Day, Name: "day", Type: iceberg.PrimitiveTypes.Date},
		{ID: Part, Name: "part", Type: iceberg.PrimitiveTypes.String},
		{ID: Extra, Name: "extra", Type: iceberg.PrimitiveTypes.Int32},
	}
	if era == 0 {
		return iceberg.NewSchema(0, f...)
	}
	f[0].Type, f[1].Name, f[2].Type, f[3].Type = iceberg.PrimitiveTypes.Int64, "label", iceberg.PrimitiveTypes.Float64, iceberg.DecimalTypeOf(18, 2)
	inner.Type = iceberg.PrimitiveTypes.Int64
	f[4].Type = &iceberg.StructType{FieldList: []iceberg.NestedField{inner}}
	f[7] = iceberg.NestedField{ID: Note, Name: "note", Type: iceberg.PrimitiveTypes.String}
	if version >= 3 {
		f[7].InitialDefault = NoteDefault
	}
	return iceberg.NewSchema(1, f...)
}

// NoteDefault is the initial default of Note in format version 3.
const NoteDefault = "none given"

// Columns answers the ids of the value columns of an era.
func Columns(era int) []int {
	if era == 0 {
		return []int{ID, Name, Score, Amount, Inner, Day, Part, Extra}
	}
	return []int{ID, Name, Score, Amount, Inner, Day, Part, Note}
}

func node(era, id int) parquet.Node {
	wide := era > 0
	var n parquet.Node
	switch id {
	case ID, Inner:
		n = parquet.Int(32)
		if wide {
			n = parquet.Int(64)
		}
	case Name, Part, Note:
		n = parquet.String()
	case Score:
		n = parquet.Leaf(parquet.FloatType)
		if wide {
			n = parquet.Leaf(parquet.DoubleType)
		}
	case Amount:
		n = parquet.Decimal(2, 9, parquet.Int32Type)
		if wide {
			n = parquet.Decimal(2, 18, parquet.FixedLenByteArrayType(8))
		}
	case Day:
		n = parquet.Date()
	case Extra:
		n = parquet.Int(32)
	}
	if id != ID {
		n = parquet.Optional(n)
	}
	return parquet.FieldID(n, id)
}

func columnName(era, id int) string {
	switch {
	case id == Name && era > 0:
		return "label"
	case id == Inner:
		return "nested.inner"
	}
	return map[int]string{ID: "id", Name: "name", Score: "score", Amount: "amount", Day: "day", Part: "part", Note: "note", Extra: "extra"}[id]
}

func value(era, id int, v any) parquet.Value {
	wide := era > 0
	switch id {
	case ID, Inner, Day, Extra:
		n, _ := v.(int64)
		if wide && id != Day && id != Extra {
			return parquet.Int64Value(n)
		}
		return parquet.Int32Value(int32(n))
	case Score:
		f, _ := v.(float64)
		if wide {
			return parquet.DoubleValue(f)
		}
		return parquet.FloatValue(float32(f))
	case Amount:
		n, _ := v.(int64)
		if wide {
			return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
		return parquet.Int32Value(int32(n))
	}
	s, _ := v.(string)
	return parquet.ByteArrayValue([]byte(s))
}

// Parquet writes rows with some columns, perGroup rows in a row group.
func Parquet(era int, columns []int, rows []Row, perGroup int) ([]byte, error) {
	group := parquet.Group{}
	for _, id := range columns {
		if id == Inner {
			group["nested"] = parquet.FieldID(parquet.Optional(parquet.Group{"inner": node(era, id)}), Nested)
			continue
		}
		group[columnName(era, id)] = node(era, id)
	}
	schema := parquet.NewSchema("table", group)
	at := map[string]int{}
	for i, path := range schema.Columns() {
		at[strings.Join(path, ".")] = i
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, schema, parquet.MaxRowsPerRowGroup(int64(perGroup)), parquet.PageBufferSize(512))
	for _, row := range rows {
		r := make(parquet.Row, len(columns))
		for _, id := range columns {
			i := at[columnName(era, id)]
			v, ok := row[id]
			switch {
			case !ok || v == nil:
				level := 0
				if n, _ := row[ID].(int64); id == Inner && n%2 == 0 { // null in a struct that is there
					level = 1
				}
				r[i] = parquet.NullValue().Level(0, level, i)
			case id == ID:
				r[i] = value(era, id, v).Level(0, 0, i)
			case id == Inner:
				r[i] = value(era, id, v).Level(0, 2, i)
			default:
				r[i] = value(era, id, v).Level(0, 1, i)
			}
		}
		if _, err := w.WriteRows([]parquet.Row{r}); err != nil {
			return nil, fmt.Errorf("write row: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	return out.Bytes(), nil
}

func avroType(era, id int) string {
	wide := era > 0
	switch id {
	case ID, Inner:
		if wide {
			return `"long"`
		}
		return `"int"`
	case Score:
		if wide {
			return `"double"`
		}
		return `"float"`
	case Amount:
		precision := 9
		if wide {
			precision = 18
		}
		return fmt.Sprintf(`{"type":"fixed","name":"amount_%d","size":8,"logicalType":"decimal","precision":%d,"scale":2}`, era, precision)
	case Day:
		return `{"type":"int","logicalType":"date"}`
	case Extra:
		return `"int"`
	}
	return `"string"`
}

func appendAvro(b []byte, era, id int, v any) []byte {
	switch x := v.(type) {
	case int64:
		if id == Amount {
			return binary.BigEndian.AppendUint64(b, uint64(x))
		}
		return avrofile.AppendLong(b, x)
	case float64:
		if era > 0 {
			return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	case string:
		return avrofile.AppendString(b, x)
	}
	return b
}

// Avro writes rows with some columns.
func Avro(era int, columns []int, rows []Row) ([]byte, error) {
	var fields []string
	for _, id := range columns {
		typ := avroType(era, id)
		if id != ID {
			typ = `["null",` + typ + `]`
		}
		name := columnName(era, id)
		if id == Inner {
			typ = fmt.Sprintf(`["null",{"type":"record","name":"r5","fields":[{"name":"inner","field-id":%d,"type":%s}]}]`, Inner, typ)
			id, name = Nested, "nested"
		}
		fields = append(fields, fmt.Sprintf(`{"name":%q,"field-id":%d,"type":%s}`, name, id, typ))
	}
	w := avrofile.New(`{"type":"record","name":"table","fields":[` + strings.Join(fields, ",") + `]}`)
	for _, row := range rows {
		w.Append(func(b []byte) []byte {
			for _, id := range columns {
				v := row[id]
				switch {
				case id == ID:
				case v == nil:
					b = avrofile.AppendNull(b)
					continue
				case id == Inner:
					b = avrofile.AppendSome(avrofile.AppendSome(b))
				default:
					b = avrofile.AppendSome(b)
				}
				b = appendAvro(b, era, id, v)
			}
			return b
		})
	}
	return w.Bytes()
}

// PositionParquet writes a position delete file with the rows in the order given.
func PositionParquet(rows []Position) ([]byte, error) {
	schema := parquet.NewSchema("table", parquet.Group{
		"file_path": parquet.FieldID(parquet.String(), 2147483546),
		"pos":       parquet.FieldID(parquet.Int(64), 2147483545),
	})
	var out bytes.Buffer
	w := parquet.NewWriter(&out, schema)
	for _, r := range rows {
		row := parquet.Row{parquet.ByteArrayValue([]byte(r.Path)).Level(0, 0, 0), parquet.Int64Value(r.Pos).Level(0, 0, 1)}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			return nil, fmt.Errorf("write row: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("close: %w", err)
	}
	return out.Bytes(), nil
}

// Position is a row of a position delete file.
type Position struct {
	Path string
	Pos  int64
}

// bound writes a value in Iceberg's single-value serialisation.
func bound(era, id int, v any) []byte {
	switch x := v.(type) {
	case int64:
		switch {
		case id == Amount:
			b := binary.BigEndian.AppendUint64(nil, uint64(x))
			for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xff && b[1] >= 0x80) {
				b = b[1:]
			}
			return b
		case era > 0 && (id == ID || id == Inner):
			return binary.LittleEndian.AppendUint64(nil, uint64(x))
		}
		return binary.LittleEndian.AppendUint32(nil, uint32(x))
	case float64:
		if era > 0 {
			return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))
		}
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x)))
	case string:
		return []byte(x)
	}
	return nil
}

func less(a, b any) bool {
	switch x := a.(type) {
	case int64:
		y, ok := b.(int64)
		return ok && x < y
	case float64:
		y, ok := b.(float64)
		return ok && x < y
	case string:
		y, ok := b.(string)
		return ok && x < y
	}
	return false
}
