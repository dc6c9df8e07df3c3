package decode

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// Sample is one record that Discover looks at. A nil Key or Value is Kafka's null.
type Sample struct {
	Partition   kafkapos.Partition
	Offset      kafkapos.Offset
	TimestampMs int64
	Key, Value  []byte
}

// HasValue says whether the record has a value: neither Kafka's null nor JSON's.
func (s *Sample) HasValue() bool { return s.Value != nil && !isLiteralNull(s.Value) }

// String names the record: partition:offset.
func (s *Sample) String() string { return fmt.Sprintf("%d:%d", s.Partition, s.Offset) }

// Discovery is how a topic is read and which columns it has.
type Discovery struct {
	Decoding Decoding
	// Writers are the schemas that records were written with, oldest first: the value's columns and the key columns
	// that the value lacks. Field ids are positions and mean nothing. schema.Extend folds them into a table schema.
	Writers []*schema.Schema
}

// MaxSamples is how many of a topic's newest records Discover needs at most.
const MaxSamples = 1000

// Discover finds how a topic is encoded. samples are its newest records, by ascending offset within a partition.
// reg may be nil when there is no registry.
//
// A topic that is discovered may still have bad records: those are met, and fall under the table's policy, when the
// log is scanned. What Discover refuses is what no policy could make right.
//
// Errors: fault.ErrInvalid when the topic cannot be served as a table; the text gives the reason, the partition and
// offset that show it, and the configuration key that helps where one does. fault.ErrUnavailable and fault.ErrDenied
// come from the registry and decide nothing. fault.ErrNotFound: there is no record with a value to look at.
func Discover(ctx context.Context, topic string, samples []Sample, reg registry.Registry) (Discovery, error) {
	d := discoverer{topic: topic, reg: reg, samples: samples}
	found, err := d.discover(ctx)
	if err != nil {
		return Discovery{}, fmt.Errorf("discover topic %q: %w", topic, err)
	}
	return found, nil
}

// discoverer is one Discover at work.
type discoverer struct {
	topic    string
	reg      registry.Registry
	samples  []Sample
	decoding Decoding
	values   side
	keys     side
}

// side is the keys or the values of the samples.
type side struct {
	format string
	types  []*writerType // the writer schemas met, in the order of the samples; nil for bare JSON
	ids    []int32       // of Avro schemas met, in the same order
}

func (d *discoverer) discover(ctx context.Context) (Discovery, error) {
	if err := d.findFormats(); err != nil {
		return Discovery{}, err
	}
	if err := d.loadTypes(ctx); err != nil {
		return Discovery{}, err
	}
	if err := d.findEnvelope(); err != nil {
		return Discovery{}, err
	}
	keyColumns, err := d.findKey(ctx)
	if err != nil {
		return Discovery{}, err
	}
	writers, err := d.writers(ctx)
	if err != nil {
		return Discovery{}, err
	}
	if err := keyAgrees(writers, keyColumns); err != nil {
		return Discovery{}, err
	}
	found := Discovery{Decoding: d.decoding, Writers: addKeyColumns(writers, keyColumns)}
	return found, d.try(ctx, found)
}

// refuse is the error for a topic that cannot be a table.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), fault.ErrInvalid)
}

// exclude is what to do about a topic that will never be a table.
const exclude = "exclude it with topics.exclude"

// findFormats sees what keys and values look like. A value that is nothing known is left out: it is a bad record, and
// that is the scan's affair, unless there is no other.
func (d *discoverer) findFormats() error {
	var unknown *Sample
	var fit []Sample
	for i := range d.samples {
		s := &d.samples[i]
		if s.HasValue() {
			format, ok := formatOf(s.Value)
			if !ok {
				unknown = s
				continue
			}
			if err := d.values.agree(format, "value", s); err != nil {
				return err
			}
		}
		if s.Key != nil {
			format, _ := formatOf(s.Key)
			if err := d.keys.agree(format, "key", s); err != nil {
				return err
			}
		}
		fit = append(fit, *s)
	}
	switch {
	case d.values.format == "" && unknown != nil:
		return refuse("the value of record %s is neither JSON nor in the schema registry's wire format", unknown)
	case d.values.format == "":
		return fmt.Errorf("the table has no row yet: there is no record with a value, and only such a record shows the columns;"+
			" the table is there as soon as one is in the topic: %w", fault.ErrNotFound)
	}
	d.samples = fit
	d.decoding.KeyFormat, d.decoding.ValueFormat = d.keys.format, d.values.format
	return nil
}

func (s *side) agree(format, what string, at *Sample) error {
	if s.format != "" && s.format != format {
		return refuse("the %s of record %s is %s and others before it are %s", what, at, format, s.format)
	}
	s.format = format
	return nil
}

func isLiteralNull(b []byte) bool { return string(b) == "null" }

// formatOf tells the formats apart; ok is false for what is not JSON either, which a key may be: then it is text.
func formatOf(b []byte) (format string, ok bool) {
	if len(b) >= wirePrefix && b[0] == 0 {
		return FormatAvro, true
	}
	ms, err := members(b)
	if err != nil {
		s := jsonScanner{b: b}
		return FormatJSON, s.skip() == nil && s.end()
	}
	if len(ms) == 2 && lookup(ms, "schema") != nil && lookup(ms, "payload") != nil {
		sch := lookup(ms, "schema")
		if isNull(sch) {
			return FormatJSONSchema, true
		}
		if inner, err := members(sch); err == nil && text(lookup(inner, "type")) != "" {
			return FormatJSONSchema, true
		}
	}
	return FormatJSON, true
}

// loadTypes parses the writer schemas that the samples name or carry.
func (d *discoverer) loadTypes(ctx context.Context) error {
	for i := range d.samples {
		s := &d.samples[i]
		if err := d.load(ctx, &d.values, s.Value); err != nil {
			return fmt.Errorf("value of record %s: %w", s, err)
		}
		if err := d.load(ctx, &d.keys, s.Key); err != nil {
			return fmt.Errorf("key of record %s: %w", s, err)
		}
	}
	return nil
}

func (d *discoverer) load(ctx context.Context, s *side, b []byte) error {
	if b == nil || isLiteralNull(b) {
		return nil
	}
	switch s.format {
	case FormatAvro:
		id, err := schemaID(b)
		if err != nil {
			return err
		}
		for _, known := range s.ids {
			if known == id {
				return nil
			}
		}
		w, err := d.byID(ctx, id)
		if err != nil {
			return err
		}
		s.ids, s.types = append(s.ids, id), append(s.types, w)
	case FormatJSONSchema:
		ms, err := members(b)
		if err != nil {
			return err
		}
		if raw := lookup(ms, "schema"); !isNull(raw) {
			w, err := parseConnect(raw)
			if err != nil {
				return err
			}
			s.types = append(s.types, w)
		}
	}
	return nil
}

func (d *discoverer) byID(ctx context.Context, id int32) (*writerType, error) {
	if d.reg == nil {
		return nil, refuse("records are in the schema registry's wire format; set registry.url")
	}
	s, err := d.reg.ByID(ctx, id)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, refuse("schema %d is not in the registry", id)
	}
	if err != nil {
		return nil, fmt.Errorf("look up schema %d: %w", id, err)
	}
	return avroOnly(s)
}

func avroOnly(s registry.Schema) (*writerType, error) {
	w, err := parseAvro(s)
	if errors.Is(err, fault.ErrUnsupported) {
		return nil, refuse("schema %d is of type %s, and only Avro is read", s.ID, s.Type)
	}
	return w, err
}

// try decodes the samples as the table would, and refuses what no policy for bad records makes right.
func (d *discoverer) try(ctx context.Context, found Discovery) error {
	var list []*schema.Schema
	for _, w := range found.Writers {
		s, changed, err := schema.Extend(list, w)
		if err != nil {
			return err
		}
		if changed {
			list = append(list, s)
		}
	}
	table := schema.FileSchema(list[len(list)-1])
	dec, err := NewDecoder(Spec{Schema: table, Decoding: found.Decoding}, d.reg)
	if err != nil {
		return err
	}
	rows := column.NewBatch(table)
	for i := range d.samples {
		s := &d.samples[i]
		ev, err := dec.Decode(ctx, &kafkalog.Record{Offset: s.Offset, TimestampMs: s.TimestampMs, Key: s.Key, Value: s.Value}, rows)
		var reason *BadRecord
		switch {
		case errors.As(err, &reason):
			if reason.topic {
				return refuse("record %s: %s", s, reason.Reason)
			}
		case err != nil:
			return fmt.Errorf("record %s: %w", s, err)
		case ev.Class == layout.Truncate:
			return refuse("record %s is a truncate event (op t), which is not served; let the connector skip them (skipped.operations=t)", s)
		}
	}
	if isSignalTable(rows) {
		return refuse("the topic is Debezium's signal table; %s", exclude)
	}
	return nil
}

// isSignalTable: Debezium's "Signaling" documents the table's columns and the types.
func isSignalTable(rows *column.Batch) bool {
	fields := rows.Schema.Fields
	if len(fields) != metadataLeaves+4 || rows.Rows == 0 {
		return false
	}
	for i, name := range []string{"id", "type", "data"} {
		if fields[metadataLeaves+i].Name != name || fields[metadataLeaves+i].Type.Kind != schema.String {
			return false
		}
	}
	types := rows.Leaves[metadataLeaves+1]
	for i := range types.Len() {
		switch string(types.Value(i)) {
		case "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "snapshot-window-open",
			"snapshot-window-close", "schema-changes", "log":
		default:
			return false
		}
	}
	return types.Len() > 0
}
