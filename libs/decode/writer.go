package decode

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// phys is how a value lies on the wire, before its meaning.
type phys uint8

const (
	pNull phys = iota + 1
	pBool
	pInt    // up to 32 bits
	pLong   // 64 bits
	pFloat  // 32 bits
	pDouble // 64 bits
	pString
	pBytes
	pFixed // size bytes
	pEnum  // one of symbols
	pArray // elem
	pMap   // key (nil in Avro: text) and elem
	pRecord
	pUnion // branches; [null, T] is an optional T
	pText  // bare JSON: text as it is, objects and arrays as their JSON text
)

// writerType is a type of a writer schema, whatever language it was written in. Avro's named types may refer to
// themselves, so the tree may have cycles; they go through a record.
type writerType struct {
	phys     phys
	name     string // semantic type: Kafka Connect's schema name
	logical  string // Avro's logicalType
	scale    int    // of a decimal
	prec     int    // of a decimal; 0 unknown
	size     int    // pFixed, bytes
	symbols  []string
	fields   []writerField
	key      *writerType
	elem     *writerType
	branches []*writerType
}

type writerField struct {
	name string
	typ  *writerType
}

// strip takes the null away from an optional type. null is its branch number, -1 if the type is not optional.
func (w *writerType) strip() (inner *writerType, null int) {
	if w.phys != pUnion {
		return w, -1
	}
	inner, null = nil, -1
	for i, b := range w.branches {
		switch {
		case b.phys == pNull && null < 0:
			null = i
		case inner == nil:
			inner = b
		default:
			return w, -1
		}
	}
	if inner == nil {
		return w, -1
	}
	return inner, null
}

// field finds a field of a record.
func (w *writerType) field(name string) *writerType {
	for i := range w.fields {
		if w.fields[i].name == name {
			return w.fields[i].typ
		}
	}
	return nil
}

// optional makes T a [null, T].
func optional(w *writerType) *writerType {
	return &writerType{phys: pUnion, branches: []*writerType{{phys: pNull}, w}}
}

// conv is the change that a value goes through between the wire and its column.
type conv uint8

const (
	convNone   conv = iota
	convDate        // days; Debezium's infinities refused
	convMillis      // milliseconds to microseconds
	convMicros      // microseconds; Debezium's infinities refused
	convNanos       // nanoseconds to microseconds, rounded down
	convZoned       // ISO-8601 text with a zone to microseconds UTC
	convIsoDate
	convIsoTimestamp // ISO-8601 text, a zone is cosmetic
	convDecimal      // two's complement (JSON: also a number) to the column's scale
	convVarDecimal   // {scale, value} to plain text
)

// meaning is what a type of a writer becomes in the table.
type meaning struct {
	typ  schema.Type // primitive
	doc  string      // the unit, where the type does not say it
	conv conv
}

// Units that stand in a column's doc, since the dialects have no type that every reader reads.
const (
	docMillisOfDay = "milliseconds of the day"
	docMicrosOfDay = "microseconds of the day"
	docNanosOfDay  = "nanoseconds of the day"
	docMicros      = "microseconds"
	docNanos       = "nanoseconds"
)

// meaningOf answers the column of a primitive writer type; ok is false for records, arrays, maps and unions. Its
// source is Debezium's documentation of "Data type mappings" and Kafka Connect's logical types.
func meaningOf(w *writerType) (m meaning, ok bool, err error) {
	if m, ok := namedMeaning(w); ok {
		return m, true, nil
	}
	if w.phys == pBytes || w.phys == pFixed {
		if w.name == "org.apache.kafka.connect.data.Decimal" || w.logical == "decimal" {
			return decimalMeaning(w), true, nil
		}
	}
	if m, ok := logicalMeaning(w); ok {
		return m, true, nil
	}
	k, ok := plainKind(w.phys)
	if !ok && w.phys == pNull {
		return m, false, fmt.Errorf("a type that holds only null: %w", fault.ErrInvalid)
	}
	return meaning{typ: schema.Type{Kind: k}}, ok, nil
}

func plainKind(p phys) (schema.Kind, bool) {
	switch p {
	case pBool:
		return schema.Boolean, true
	case pInt:
		return schema.Int, true
	case pLong:
		return schema.Long, true
	case pFloat:
		return schema.Float, true
	case pDouble:
		return schema.Double, true
	case pString, pEnum, pText:
		return schema.String, true
	case pBytes, pFixed:
		return schema.Binary, true
	default:
		return 0, false
	}
}

// namedMeaning goes by the semantic name, where the physical type is the one that the name is documented with.
func namedMeaning(w *writerType) (meaning, bool) {
	integer := w.phys == pInt || w.phys == pLong
	long := schema.Type{Kind: schema.Long}
	timestamp := schema.Type{Kind: schema.Timestamp}
	text := w.phys == pString
	switch w.name {
	case "io.debezium.time.Date", "org.apache.kafka.connect.data.Date":
		return meaning{schema.Type{Kind: schema.Date}, "", convDate}, integer
	case "io.debezium.time.Time", "org.apache.kafka.connect.data.Time":
		return meaning{long, docMillisOfDay, convNone}, integer
	case "io.debezium.time.MicroTime":
		return meaning{long, docMicrosOfDay, convNone}, integer
	case "io.debezium.time.NanoTime":
		return meaning{long, docNanosOfDay, convNone}, integer
	case "io.debezium.time.Timestamp", "org.apache.kafka.connect.data.Timestamp":
		return meaning{timestamp, "", convMillis}, integer
	case "io.debezium.time.MicroTimestamp":
		return meaning{timestamp, "", convMicros}, integer
	case "io.debezium.time.NanoTimestamp":
		return meaning{timestamp, "", convNanos}, integer
	case "io.debezium.time.ZonedTimestamp":
		return meaning{schema.Type{Kind: schema.Timestamptz}, "", convZoned}, text
	case "io.debezium.time.IsoDate":
		return meaning{schema.Type{Kind: schema.Date}, "", convIsoDate}, text
	case "io.debezium.time.IsoTimestamp":
		return meaning{timestamp, "", convIsoTimestamp}, text
	case "io.debezium.time.MicroDuration":
		return meaning{long, docMicros, convNone}, integer
	case "io.debezium.time.NanoDuration":
		return meaning{long, docNanos, convNone}, integer
	case variableScaleDecimal:
		scale, value := w.field("scale"), w.field("value")
		ok := w.phys == pRecord && len(w.fields) == 2 && scale != nil && value != nil &&
			scale.phys == pInt && value.phys == pBytes
		return meaning{schema.Type{Kind: schema.String}, "", convVarDecimal}, ok
	}
	return meaning{}, false
}

// logicalMeaning goes by Avro's logical types (Avro specification, "Logical Types") where there is no Connect name.
func logicalMeaning(w *writerType) (meaning, bool) {
	zoned := schema.Type{Kind: schema.Timestamptz}
	local := schema.Type{Kind: schema.Timestamp}
	long := schema.Type{Kind: schema.Long}
	switch w.logical {
	case "date":
		return meaning{schema.Type{Kind: schema.Date}, "", convDate}, w.phys == pInt
	case "time-millis":
		return meaning{long, docMillisOfDay, convNone}, w.phys == pInt
	case "time-micros":
		return meaning{long, docMicrosOfDay, convNone}, w.phys == pLong
	case "timestamp-millis":
		return meaning{zoned, "", convMillis}, w.phys == pLong
	case "timestamp-micros":
		return meaning{zoned, "", convMicros}, w.phys == pLong
	case "timestamp-nanos":
		return meaning{zoned, "", convNanos}, w.phys == pLong
	case "local-timestamp-millis":
		return meaning{local, "", convMillis}, w.phys == pLong
	case "local-timestamp-micros":
		return meaning{local, "", convMicros}, w.phys == pLong
	case "local-timestamp-nanos":
		return meaning{local, "", convNanos}, w.phys == pLong
	}
	return meaning{}, false
}

// confluentUnknownPrecision is what Confluent's and Apicurio's Avro converters write when Connect has no precision
// (AvroData.CONNECT_AVRO_DECIMAL_PRECISION_DEFAULT).
const confluentUnknownPrecision = 64

// decimalMeaning: an unknown precision becomes the largest; what Iceberg cannot hold becomes plain text.
func decimalMeaning(w *writerType) meaning {
	prec, scale := w.prec, w.scale
	if prec == 0 {
		prec = schema.MaxPrecision
	}
	if scale < 0 {
		prec, scale = min(prec-scale, schema.MaxPrecision), 0
	}
	if prec > schema.MaxPrecision || scale > prec {
		return meaning{schema.Type{Kind: schema.String}, "", convDecimal}
	}
	return meaning{schema.Type{Kind: schema.Decimal, Precision: prec, Scale: scale}, "", convDecimal}
}

// variableScaleDecimal is a record that stands for one number.
const variableScaleDecimal = "io.debezium.data.VariableScaleDecimal"

// maxDepth bounds how deep types and values may nest.
const maxDepth = 32

// columnsOf answers the columns of a record type. Field ids are positions.
func columnsOf(w *writerType) ([]schema.Field, error) {
	id := int32(0)
	fields, err := fieldsOf(w, &id, 0)
	if err != nil {
		return nil, err
	}
	return fields, nil
}

func fieldsOf(w *writerType, id *int32, depth int) ([]schema.Field, error) {
	out := make([]schema.Field, 0, len(w.fields))
	for i := range w.fields {
		f, err := fieldOf(w.fields[i].name, w.fields[i].typ, id, depth)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func fieldOf(name string, w *writerType, id *int32, depth int) (schema.Field, error) {
	*id++
	f := schema.Field{ID: *id, Name: name}
	if depth > maxDepth {
		return f, fmt.Errorf("column %q nests deeper than %d levels, or refers to itself: %w", name, maxDepth, fault.ErrInvalid)
	}
	w, _ = w.strip()
	m, ok, err := meaningOf(w)
	if err != nil {
		return f, fmt.Errorf("column %q: %w", name, err)
	}
	if ok {
		f.Type, f.Doc = m.typ, m.doc
		return f, nil
	}
	switch w.phys {
	case pRecord:
		fields, err := fieldsOf(w, id, depth+1)
		if err == nil && len(fields) == 0 {
			err = fmt.Errorf("column %q is a struct without fields: %w", name, fault.ErrInvalid)
		}
		f.Type = schema.Type{Kind: schema.Struct, Fields: fields}
		return f, err
	case pArray:
		elem, err := fieldOf("element", w.elem, id, depth+1)
		f.Type = schema.Type{Kind: schema.List, Elem: &elem}
		return f, inColumn(name, err)
	case pMap:
		keyType := w.key
		if keyType == nil {
			keyType = &writerType{phys: pString}
		}
		key, err := fieldOf("key", keyType, id, depth+1)
		if err != nil {
			return f, inColumn(name, err)
		}
		key.Required = true
		val, err := fieldOf("value", w.elem, id, depth+1)
		f.Type = schema.Type{Kind: schema.Map, Key: &key, Elem: &val}
		return f, inColumn(name, err)
	default:
		return f, fmt.Errorf("column %q is a union of several types: %w", name, fault.ErrInvalid)
	}
}

func inColumn(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("column %q: %w", name, err)
}
