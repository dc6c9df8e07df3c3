package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/change"
	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// metadataLeaves is how many leaves the metadata columns have: one each.
const metadataLeaves = 3

// rowIDBits is where the partition begins in a _row_id.
const rowIDBits = 44

// maxPrograms bounds the compiled programs that a decoder keeps per side; more make it start over.
const maxPrograms = 256

// Decoder decodes the records of one partition of one table. It keeps compiled programs and buffers, so it is used
// by one goroutine at a time.
type Decoder struct {
	spec     Spec
	reg      registry.Registry
	columns  []schema.Field // value and key columns: the file schema without metadata and _row_id
	table    *schema.Schema // the table schema: the file schema without _row_id
	keyIndex map[string]int // of the key fields
	hasher   *change.Hasher
	encoder  *change.Encoder
	scratch  *column.Batch // for events without a batch

	json      jsonReader // of values
	jsonKey   jsonReader
	avro      avroReader
	avroKey   avroReader
	canonical []byte

	bareRow          *node // the row in JSON without a schema
	bareObject       *keyProgram
	barePrimitive    *keyProgram
	rows             programs[*rowProgram]
	keys             programs[*keyProgram]
	valueRaw, keyRaw lastProgram // JSON with schemas
}

// NewDecoder checks spec. reg may be nil when neither format is FormatAvro.
// Errors: fault.ErrInvalid.
func NewDecoder(spec Spec, reg registry.Registry) (*Decoder, error) {
	if err := spec.Decoding.Validate(); err != nil {
		return nil, err
	}
	if reg == nil && (spec.Decoding.KeyFormat == FormatAvro || spec.Decoding.ValueFormat == FormatAvro) {
		return nil, fmt.Errorf("records are Avro and there is no schema registry; set registry.url: %w", fault.ErrInvalid)
	}
	d := &Decoder{spec: spec, reg: reg, hasher: change.NewHasher(spec.HashKey), keyIndex: map[string]int{}}
	if err := d.takeSchema(spec.Schema); err != nil {
		return nil, err
	}
	names := spec.Decoding.KeyFields
	if len(names) > maxKeyFields {
		return nil, fmt.Errorf("a key of more than %d fields: %w", maxKeyFields, fault.ErrInvalid)
	}
	for i, name := range names {
		d.keyIndex[name] = i
	}
	var err error
	if d.encoder, err = change.NewEncoder(names); err != nil {
		return nil, err
	}
	d.jsonKey.key, d.avroKey.key = d.encoder, d.encoder
	if spec.Decoding.KeyFormat == FormatJSON {
		if d.bareObject, d.barePrimitive, err = d.bareKey(); err != nil {
			return nil, err
		}
	}
	if spec.Decoding.ValueFormat == FormatJSON {
		if d.bareRow, err = d.bareRowNode(); err != nil {
			return nil, err
		}
	}
	d.rows.reset()
	d.keys.reset()
	d.scratch = column.NewBatch(spec.Schema)
	return d, nil
}

// takeSchema checks the shape of the file schema and takes it apart.
func (d *Decoder) takeSchema(s *schema.Schema) error {
	last := 0
	if s != nil {
		last = len(s.Fields) - 1
	}
	if last < metadataLeaves || s.Fields[last].ID != schema.RowIDFieldID {
		return fmt.Errorf("a file schema ends with %s: %w", schema.RowIDColumn, fault.ErrInvalid)
	}
	for i, id := range []int32{schema.PartitionFieldID, schema.OffsetFieldID, schema.TimestampFieldID} {
		if f := &s.Fields[i]; f.ID != id || !f.Required {
			return fmt.Errorf("a file schema begins with the metadata columns, required: %w", fault.ErrInvalid)
		}
	}
	d.columns = s.Fields[metadataLeaves:last]
	d.table = &schema.Schema{ID: s.ID, Fields: s.Fields[:last]}
	return nil
}

// Decode says what rec is and, for class Row, appends its row to dst: the metadata columns, the value's columns, key
// columns that the value lacks, and _row_id. dst must have been made with the spec's Schema; nil asks for the event
// only, which is the same for every dst. dst is unchanged when the class is not Row. rec is not kept.
//
// For class Bad the error is a *BadRecord. Every other error decides nothing about the record and comes with a zero
// Event: *UnknownColumns, fault.ErrUnavailable and fault.ErrDenied (the registry), and ctx's.
func (d *Decoder) Decode(ctx context.Context, rec *kafkalog.Record, dst *column.Batch) (Event, error) {
	if dst == nil {
		dst = d.scratch
		dst.Reset()
	} else if len(dst.Leaves) != len(d.scratch.Leaves) {
		return Event{}, fmt.Errorf("decode into a batch of another schema: %w", fault.ErrInvalid)
	}
	ev, err := d.event(ctx, rec, dst)
	if err == nil {
		return ev, nil
	}
	var reason *BadRecord
	if errors.As(err, &reason) {
		return Event{Class: layout.Bad}, reason
	}
	return Event{}, err
}

func isBad(err error) bool {
	if err == nil {
		return false
	}
	var reason *BadRecord
	return errors.As(err, &reason)
}

func (d *Decoder) event(ctx context.Context, rec *kafkalog.Record, dst *column.Batch) (Event, error) {
	if rec.Value == nil {
		return d.keyed(ctx, rec, layout.Delete)
	}
	dst.BeginRow()
	d.json.leaves, d.avro.leaves = dst.Leaves, dst.Leaves
	class, lacking, err := d.value(ctx, rec.Value, dst)
	if err == nil && class == layout.Delete {
		dst.Rollback()
		return d.keyed(ctx, rec, layout.Delete)
	}
	if err != nil || class != layout.Row {
		dst.Rollback()
		return Event{Class: class}, err
	}
	ev, err := d.keyed(ctx, rec, layout.Row)
	if err == nil && lacking != 0 {
		err = d.keyColumns(ctx, rec.Key, lacking, dst)
	}
	if err == nil {
		err = d.metadata(rec, dst)
	}
	if err != nil {
		dst.Rollback()
		return Event{}, err
	}
	dst.EndRow()
	return ev, nil
}

// keyed is an event of the record's key.
func (d *Decoder) keyed(ctx context.Context, rec *kafkalog.Record, class layout.Class) (Event, error) {
	if rec.Key == nil {
		return Event{}, errNoKey
	}
	d.encoder.Reset()
	if err := d.readKey(ctx, rec.Key, 0); err != nil {
		return Event{}, err
	}
	canonical, err := d.encoder.AppendTo(d.canonical[:0])
	if err != nil {
		return Event{}, errKeyShape
	}
	d.canonical = canonical
	return Event{Class: class, Hash: d.hasher.Hash(canonical)}, nil
}

// keyColumns stores the wanted key fields in their columns.
func (d *Decoder) keyColumns(ctx context.Context, key []byte, wanted uint64, dst *column.Batch) error {
	d.jsonKey.leaves, d.avroKey.leaves = dst.Leaves, dst.Leaves
	return d.readKey(ctx, key, wanted)
}

// metadata appends the columns that come from the record itself.
func (d *Decoder) metadata(rec *kafkalog.Record, dst *column.Batch) error {
	micros, ok := convertInt(convMillis, rec.TimestampMs)
	if !ok {
		return bad("the record's timestamp is out of range")
	}
	if rec.Offset < 0 || rec.Offset >= 1<<rowIDBits {
		return bad("the record's offset is outside %d bits", rowIDBits)
	}
	p, o, t, id := dst.Leaves[0], dst.Leaves[1], dst.Leaves[2], dst.Leaves[len(dst.Leaves)-1]
	p.Int32s = append(p.Int32s, int32(d.spec.Partition))
	o.Int64s = append(o.Int64s, int64(rec.Offset))
	t.Int64s = append(t.Int64s, micros)
	id.Int64s = append(id.Int64s, RowID(d.spec.Partition, rec.Offset))
	return nil
}

// RowID is the _row_id of a record: unique in the table and ascending in a partition.
func RowID(p kafkapos.Partition, o kafkapos.Offset) int64 { return int64(p)<<rowIDBits | int64(o) }

// asBad turns a lasting fault of a schema into the reason why its records are bad. What may pass stays as it is.
func asBad(err error) error {
	var reason *BadRecord
	var unknown *UnknownColumns
	switch {
	case errors.As(err, &reason), errors.As(err, &unknown), !errors.Is(err, fault.ErrInvalid):
		return err
	}
	return bad("%v", err)
}

// programs keeps compiled programs by schema id.
type programs[P any] struct {
	byID   map[int32]P
	byText map[string]P
	lastID int32
	last   P
	have   bool
}

func (p *programs[P]) reset() { *p = programs[P]{byID: map[int32]P{}, byText: map[string]P{}} }

// lastProgram is the embedded schema that was met last.
type lastProgram struct{ text []byte }

func (l *lastProgram) note(text []byte) {
	if !slices.Equal(l.text, text) {
		l.text = append(l.text[:0], text...)
	}
}
