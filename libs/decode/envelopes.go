package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/schema"
)

// findEnvelope decides between Debezium and upsert, and refuses the topics that are known to be something else.
func (d *discoverer) findEnvelope() error {
	for i := range d.values.types {
		w, _ := d.values.types[i].strip()
		if err := d.takeEnvelope(typedEnvelope(w)); err != nil {
			return err
		}
	}
	if d.values.format != FormatJSON {
		return nil
	}
	for i := range d.samples {
		s := &d.samples[i]
		if !s.HasValue() {
			continue
		}
		ms, err := members(s.Value)
		if err != nil {
			return refuse("the value of record %s is not a JSON object", s)
		}
		if err := d.takeEnvelope(bareEnvelope(ms)); err != nil {
			return fmt.Errorf("record %s: %w", s, err)
		}
	}
	return nil
}

func (d *discoverer) takeEnvelope(envelope string, err error) error {
	if err != nil {
		return err
	}
	if d.decoding.Envelope != "" && d.decoding.Envelope != envelope {
		return refuse("some records are Debezium envelopes and some are not")
	}
	d.decoding.Envelope = envelope
	return nil
}

// typedEnvelope goes by a writer schema.
func typedEnvelope(w *writerType) (string, error) {
	if why := notATable(w.name); why != "" {
		return "", refuse("the topic is %s; %s", why, exclude)
	}
	if w.phys != pRecord {
		return "", refuse("the values are not records")
	}
	if w.field("op") == nil || w.field("source") == nil {
		return upsertOf(func(name string) bool { return w.field(name) != nil })
	}
	after := w.field("after")
	if after == nil {
		return "", refuse("Debezium envelopes without a row (field after)")
	}
	if row, _ := after.strip(); row.phys != pRecord {
		return "", refuse("the rows are text (MongoDB's extended JSON), which is not read")
	}
	return EnvelopeDebezium, nil
}

// bareEnvelope goes by the fields of a JSON object.
func bareEnvelope(ms []member) (string, error) {
	has := func(names ...string) bool {
		for _, name := range names {
			if lookup(ms, name) == nil {
				return false
			}
		}
		return true
	}
	switch {
	case has("op", "source"):
		if text(lookup(ms, "op")) == "m" {
			return "", refuse("the topic is a topic of logical messages (op m); %s", exclude)
		}
		if after := lookup(ms, "after"); !isNull(after) && after[0] != '{' {
			return "", refuse("the rows are text (MongoDB's extended JSON), which is not read")
		}
		return EnvelopeDebezium, nil
	case has("ts_ms") && len(ms) == 1, has("ts_ms", "ts_us", "ts_ns") && len(ms) == 3:
		return "", refuse("the topic is a heartbeat topic; %s", exclude)
	case has("status", "id", "event_count", "data_collections"):
		return "", refuse("the topic is a transaction metadata topic; %s", exclude)
	case has("source", "databaseName", "ddl"):
		return "", refuse("the topic is a schema change topic; %s", exclude)
	case has("aggregate_type", "additional_data", "type"):
		return "", refuse("the topic is a notification topic; %s", exclude)
	}
	return upsertOf(func(name string) bool { return has(name) })
}

// upsertOf takes a record for a row, unless its fields say that it is another tool's envelope.
func upsertOf(has func(name string) bool) (string, error) {
	all := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !has(n) })
	}
	switch {
	case has("__deleted"):
		return "", refuse("the records are flattened (ExtractNewRecordState with __deleted), which is not read; " +
			"send the whole envelope, or tombstones (delete.tombstone.handling.mode=tombstone)")
	case all("database", "table", "type", "data", "ts"):
		return "", refuse("the records are envelopes of Maxwell or Canal, which are not read")
	case all("op_type", "op_ts", "pos", "table"):
		return "", refuse("the records are envelopes of GoldenGate, which are not read")
	case all("specversion", "iodebeziumconnector"):
		return "", refuse("the records are CloudEvents, which are not read")
	}
	return EnvelopeUpsert, nil
}

// findKey finds the key's fields and their types as columns.
func (d *discoverer) findKey(ctx context.Context) ([]schema.Field, error) {
	if err := d.keyless(); err != nil {
		return nil, err
	}
	var columns []schema.Field
	var err error
	if d.keys.format == FormatJSON {
		columns, err = d.bareKeyColumns()
	} else {
		columns, err = d.typedKeyColumns(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i := range columns {
		d.decoding.KeyFields = append(d.decoding.KeyFields, columns[i].Name)
	}
	return columns, nil
}

// keyless refuses topics with null keys. A truncate event has one, too, and has a better reason.
func (d *discoverer) keyless() error {
	var first *Sample
	keyed, certain := false, false
	for i := range d.samples {
		s := &d.samples[i]
		if s.Key != nil {
			keyed = true
			continue
		}
		if first == nil {
			first = s
		}
		certain = certain || !d.isTruncate(s.Value)
	}
	if certain || !keyed {
		return refuse("record %s has no key: without keys there is no current state to serve; "+
			"let the source send a key (message.key.columns)", first)
	}
	return nil
}

func (d *discoverer) isTruncate(value []byte) bool {
	if d.decoding.Envelope != EnvelopeDebezium || value == nil {
		return false
	}
	if d.values.format == FormatAvro {
		return true // try decodes it and says what it is
	}
	ms, _ := members(value)
	if d.values.format == FormatJSONSchema {
		ms, _ = members(lookup(ms, "payload"))
	}
	return text(lookup(ms, "op")) == "t"
}

// typedKeyColumns goes by the key's writer schemas, which must have the same fields.
func (d *discoverer) typedKeyColumns(ctx context.Context) ([]schema.Field, error) {
	var columns []schema.Field
	for i, w := range d.keys.types {
		w, _ = w.strip()
		next := []schema.Field{}
		var err error
		if w.phys == pRecord && w.name != variableScaleDecimal {
			next, err = columnsOf(w)
		} else {
			var id int32
			var f schema.Field
			f, err = fieldOf(PrimitiveKeyField, w, &id, 0)
			next = append(next, f)
		}
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		if i > 0 && fieldNames(next) != fieldNames(columns) {
			return nil, d.keyChanged(fieldNames(columns), fieldNames(next), i)
		}
		columns = next
	}
	if len(columns) == 0 {
		return nil, refuse("the key has no fields")
	}
	for i := range columns {
		if columns[i].Type.Kind >= schema.List {
			return nil, refuse("key field %q is not a plain value", columns[i].Name)
		}
	}
	return columns, ctx.Err()
}

// keyChanged names the first record whose key is written with schema i.
func (d *discoverer) keyChanged(before, after string, i int) error {
	seen := side{format: d.keys.format}
	for j := range d.samples {
		s := &d.samples[j]
		if s.Key == nil {
			continue
		}
		if d.keys.format == FormatAvro {
			if id, err := schemaID(s.Key); err == nil && id == d.keys.ids[i] {
				return refuseKeyChange(before, after, s)
			}
			continue
		}
		if seen.types = append(seen.types, nil); len(seen.types) == i+1 {
			return refuseKeyChange(before, after, s)
		}
	}
	return refuse("the key's fields change from (%s) to (%s)", before, after)
}

func refuseKeyChange(before, after string, s *Sample) error {
	return refuse("the key's fields change from (%s) to (%s) at record %s: records of one row would have two identities; "+
		"send the table to a new topic", before, after, s)
}

// fieldNames are the names, sorted: the order does not matter for the identity.
func fieldNames(fields []schema.Field) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// bareKeyColumns goes by the keys themselves.
func (d *discoverer) bareKeyColumns() ([]schema.Field, error) {
	f := newInference()
	var primitive [][]byte
	var before string
	have := false
	for i := range d.samples {
		s := &d.samples[i]
		if s.Key == nil {
			continue
		}
		ms, err := members(s.Key)
		names := ""
		if err != nil {
			primitive = append(primitive, s.Key)
		} else {
			for j := range ms {
				if ms[j].value[0] == '{' || ms[j].value[0] == '[' {
					return nil, refuse("key field %q is not a plain value at record %s", ms[j].name, s)
				}
			}
			if err := f.add(ms, s.String()); err != nil {
				return nil, fmt.Errorf("key: %w", err)
			}
			names = memberNames(ms)
		}
		if have && before != names {
			return nil, refuseKeyChange(before, names, s)
		}
		before, have = names, true
	}
	if len(primitive) > 0 {
		return []schema.Field{{ID: 1, Name: PrimitiveKeyField, Type: schema.Type{Kind: primitiveKind(primitive)}}}, nil
	}
	if len(f.columns) == 0 {
		return nil, refuse("the key has no fields")
	}
	return f.fields(), nil
}

func memberNames(ms []member) string {
	names := make([]string, len(ms))
	for i := range ms {
		names[i] = ms[i].name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// writers are the value's columns in each schema that it was written with, oldest first.
func (d *discoverer) writers(ctx context.Context) ([]*schema.Schema, error) {
	types := d.values.types
	switch d.values.format {
	case FormatJSON:
		s, err := d.inferRows()
		return []*schema.Schema{s}, err
	case FormatAvro:
		var err error
		if types, err = d.registered(ctx); err != nil {
			return nil, err
		}
	}
	var out []*schema.Schema
	for _, w := range types {
		w, _ = w.strip()
		if d.decoding.Envelope == EnvelopeDebezium {
			after := w.field("after")
			if after == nil {
				continue // an older schema of something else
			}
			w, _ = after.strip()
		}
		fields, err := columnsOf(w)
		if err != nil {
			return nil, err
		}
		s := &schema.Schema{Fields: fields}
		if !slices.ContainsFunc(out, func(o *schema.Schema) bool { return schema.Fingerprint(o) == schema.Fingerprint(s) }) {
			out = append(out, s)
		}
	}
	return out, nil
}

// registered are the registered versions of the topic's value schema, then those that only the samples name.
func (d *discoverer) registered(ctx context.Context) ([]*writerType, error) {
	versions, err := d.reg.Versions(ctx, d.topic+"-value")
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, fmt.Errorf("list the versions of subject %s-value: %w", d.topic, err)
	}
	var out []*writerType
	known := map[int32]bool{}
	for _, v := range versions {
		w, err := avroOnly(v)
		if err != nil {
			return nil, err
		}
		known[v.ID] = true
		out = append(out, w)
	}
	for i, id := range d.values.ids {
		if !known[id] {
			out = append(out, d.values.types[i])
		}
	}
	return out, nil
}

// inferRows goes by the rows themselves.
func (d *discoverer) inferRows() (*schema.Schema, error) {
	f := newInference()
	for i := range d.samples {
		s := &d.samples[i]
		if !s.HasValue() {
			continue
		}
		row, err := members(s.Value)
		if err == nil && d.decoding.Envelope == EnvelopeDebezium {
			after := lookup(row, "after")
			if isNull(after) {
				continue
			}
			row, err = members(after)
		}
		if err == nil {
			err = f.add(row, s.String())
		}
		if err != nil {
			return nil, err
		}
	}
	return &schema.Schema{Fields: f.fields()}, nil
}

// keyAgrees refuses a key field that has another type in the value: one column cannot be both.
func keyAgrees(writers []*schema.Schema, key []schema.Field) error {
	for _, w := range writers {
		for i := range w.Fields {
			for j := range key {
				v, k := &w.Fields[i].Type, &key[j].Type
				if w.Fields[i].Name == key[j].Name && !schema.Holds(v, k) && !schema.Holds(k, v) {
					return refuse("field %q is %s in the key and %s in the value", key[j].Name, k, v)
				}
			}
		}
	}
	return nil
}

// addKeyColumns adds the key columns that no value has.
func addKeyColumns(writers []*schema.Schema, key []schema.Field) []*schema.Schema {
	for i := range key {
		has := func(s *schema.Schema) bool {
			return slices.ContainsFunc(s.Fields, func(f schema.Field) bool { return f.Name == key[i].Name })
		}
		if slices.ContainsFunc(writers, has) {
			continue
		}
		for _, w := range writers {
			f := key[i]
			f.ID = int32(len(w.Fields) + 1)
			w.Fields = append(w.Fields, f)
		}
	}
	return writers
}
