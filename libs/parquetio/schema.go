package parquetio

import (
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// leaf is what the writer knows of one leaf column beside its values.
type leaf struct {
	id             int32
	path           []string
	typ            schema.Type
	kind           column.Kind
	fixedLen       int
	maxDef, maxRep uint8
	bounded        bool // a manifest may state its bounds: not inside a list or map, and a column of the table
}

// shape is a file schema in Parquet's terms: the flattened tree, and its leaves in the order of column.Batch.
type shape struct {
	elements []format.SchemaElement
	leaves   []leaf
}

// newShape flattens a schema depth first. The names of list and map parts are the Parquet format's
// (LogicalTypes.md, "Nested Types"), whatever the schema calls them; Iceberg readers go by field id.
func newShape(s *schema.Schema) (*shape, error) {
	sh := &shape{elements: []format.SchemaElement{{Name: "table", NumChildren: thrift.New(int32(len(s.Fields)))}}}
	for i := range s.Fields {
		if err := sh.add(&s.Fields[i], s.Fields[i].Name, nil, 0, 0); err != nil {
			return nil, err
		}
	}
	if len(sh.leaves) == 0 {
		return nil, fmt.Errorf("file schema without a column: %w", fault.ErrInvalid)
	}
	return sh, nil
}

func (sh *shape) add(f *schema.Field, name string, parents []string, def, rep uint8) error {
	path := append(parents[:len(parents):len(parents)], name)
	repetition := format.Required
	if !f.Required {
		repetition = format.Optional
		def++
	}
	el := format.SchemaElement{Name: name, FieldID: f.ID, RepetitionType: thrift.New(repetition)}
	switch f.Type.Kind {
	case schema.Struct:
		el.NumChildren = thrift.New(int32(len(f.Type.Fields)))
		sh.elements = append(sh.elements, el)
		for i := range f.Type.Fields {
			if err := sh.add(&f.Type.Fields[i], f.Type.Fields[i].Name, path, def, rep); err != nil {
				return err
			}
		}
		return nil
	case schema.List:
		el.LogicalType.Value = new(format.ListType)
		el.ConvertedType = thrift.New[deprecated.ConvertedType](deprecated.List)
		return sh.addRepeated(el, "list", path, def, rep, part{f.Type.Elem, "element"})
	case schema.Map:
		el.LogicalType.Value = new(format.MapType)
		el.ConvertedType = thrift.New[deprecated.ConvertedType](deprecated.Map)
		return sh.addRepeated(el, "key_value", path, def, rep, part{f.Type.Key, "key"}, part{f.Type.Elem, "value"})
	default:
		return sh.addLeaf(el, f, path, def, rep)
	}
}

// part is a child of the repeated group of a list or map.
type part struct {
	field *schema.Field
	name  string
}

func (sh *shape) addRepeated(el format.SchemaElement, group string, path []string, def, rep uint8, parts ...part) error {
	el.NumChildren = thrift.New(int32(1))
	sh.elements = append(sh.elements, el, format.SchemaElement{
		Name: group, RepetitionType: thrift.New(format.Repeated), NumChildren: thrift.New(int32(len(parts))),
	})
	path = append(path[:len(path):len(path)], group)
	for _, p := range parts {
		if p.field == nil {
			return fmt.Errorf("column %s: %s without a type: %w", path[0], p.name, fault.ErrInvalid)
		}
		if err := sh.add(p.field, p.name, path, def+1, rep+1); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shape) addLeaf(el format.SchemaElement, f *schema.Field, path []string, def, rep uint8) error {
	kind, fixed := column.Storage(f.Type)
	typ, ok := physical(kind)
	if !ok || kind == column.Fixed && fixed == 0 {
		return fmt.Errorf("column %s: type cannot be stored: %w", path[0], fault.ErrInvalid)
	}
	el.Type = thrift.New(typ)
	if kind == column.Fixed {
		el.TypeLength = thrift.New(int32(fixed))
	}
	annotate(&el, f.Type)
	sh.elements = append(sh.elements, el)
	sh.leaves = append(sh.leaves, leaf{
		id: f.ID, path: path, typ: f.Type, kind: kind, fixedLen: fixed, maxDef: def, maxRep: rep,
		bounded: rep == 0 && f.ID != schema.RowIDFieldID,
	})
	return nil
}

// physical is the Parquet type of a kind of storage.
func physical(k column.Kind) (format.Type, bool) {
	switch k {
	case column.Bool:
		return format.Boolean, true
	case column.Int32:
		return format.Int32, true
	case column.Int64:
		return format.Int64, true
	case column.Float32:
		return format.Float, true
	case column.Float64:
		return format.Double, true
	case column.Bytes:
		return format.ByteArray, true
	case column.Fixed:
		return format.FixedLenByteArray, true
	default:
		return 0, false
	}
}

// annotate sets the logical type, and the converted type that older readers look for. A timestamp without a zone
// has no converted type: TIMESTAMP_MICROS means UTC (LogicalTypes.md, "Timestamp").
func annotate(el *format.SchemaElement, t schema.Type) {
	micros := format.TimeUnit{Value: new(format.MicroSeconds)}
	converted := func(c deprecated.ConvertedType) { el.ConvertedType = thrift.New(c) }
	switch t.Kind {
	case schema.String:
		el.LogicalType.Value = new(format.StringType)
		converted(deprecated.UTF8)
	case schema.Date:
		el.LogicalType.Value = new(format.DateType)
		converted(deprecated.Date)
	case schema.Timestamp:
		el.LogicalType.Value = &format.TimestampType{Unit: micros}
	case schema.Timestamptz:
		el.LogicalType.Value = &format.TimestampType{IsAdjustedToUTC: true, Unit: micros}
		converted(deprecated.TimestampMicros)
	case schema.Decimal:
		el.LogicalType.Value = &format.DecimalType{Scale: int32(t.Scale), Precision: int32(t.Precision)}
		converted(deprecated.Decimal)
		el.Scale, el.Precision = thrift.New(int32(t.Scale)), thrift.New(int32(t.Precision))
	}
}
