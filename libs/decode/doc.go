// Package decode turns Kafka records of a CDC topic into events and rows: it finds how a topic is encoded
// (Discover) and decodes record after record into columns (Decoder).
//
// Formats are JSON, JSON with embedded Kafka Connect schemas, and Avro in the Confluent wire format. Envelopes are
// Debezium's and the plain upsert (the value is the row, null deletes). Every record is decoded with the schema that
// it was written with and projected by name onto the table's schema. The decoders are programs compiled from the
// pair of schemas; in the steady state they allocate nothing per record.
//
// What a record means is never guessed: a record that cannot be decoded exactly is Bad, with a reason.
package decode

import (
	"fmt"
	"strings"

	"github.com/frazil-io/frazil/libs/change"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/schema"
)

// Formats of a key or a value, as they are pinned in a table's record.
const (
	FormatJSON       = "json"        // bare JSON
	FormatJSONSchema = "json-schema" // {"schema": …, "payload": …} of Kafka Connect's JsonConverter
	FormatAvro       = "avro"        // 0x00, schema id, Avro binary
)

// Envelopes, as they are pinned in a table's record.
const (
	EnvelopeUpsert   = "upsert"   // the value is the row
	EnvelopeDebezium = "debezium" // before, after, op
)

// PrimitiveKeyField is the one field name of a key that is not a record.
const PrimitiveKeyField = "key"

// Version names this decoder. It is part of the encoding id: raise it when the rows, or the values in them, that
// any record makes change.
const Version = 1

// Decoding says how the records of a topic are read. It is found once per state epoch and pinned; it mirrors
// frazil.types.v1.Decoding.
type Decoding struct {
	KeyFormat, ValueFormat string
	Envelope               string
	KeyFields              []string // in the key schema's order
}

// Validate reports what is wrong with a decoding, as fault.ErrInvalid.
func (d Decoding) Validate() error {
	for _, f := range []string{d.KeyFormat, d.ValueFormat} {
		if f != FormatJSON && f != FormatJSONSchema && f != FormatAvro {
			return fmt.Errorf("decoding: format %q: %w", f, fault.ErrInvalid)
		}
	}
	if d.Envelope != EnvelopeUpsert && d.Envelope != EnvelopeDebezium {
		return fmt.Errorf("decoding: envelope %q: %w", d.Envelope, fault.ErrInvalid)
	}
	if len(d.KeyFields) == 0 {
		return fmt.Errorf("decoding: no key fields: %w", fault.ErrInvalid)
	}
	return nil
}

// Spec is everything outside the log that decides what a record decodes to.
type Spec struct {
	Schema    *schema.Schema // the file schema: metadata columns first, _row_id last
	Decoding  Decoding
	Partition kafkapos.Partition
	HashKey   [16]byte // of the table's state epoch
}

// Event is what one record is. Hash is the key's for Row and Delete, zero for every other class.
type Event struct {
	Class layout.Class
	Hash  change.Hash
}

// BadRecord says why a record could not be decoded. The reason holds no key and no value.
type BadRecord struct {
	Reason string
	topic  bool // it is the topic that is unfit, not this record alone
}

// Error is the reason.
func (e *BadRecord) Error() string { return e.Reason }

// Unwrap makes it a fault.ErrInvalid.
func (e *BadRecord) Unwrap() error { return fault.ErrInvalid }

// bad makes a BadRecord.
func bad(format string, args ...any) *BadRecord {
	return &BadRecord{Reason: fmt.Sprintf(format, args...)}
}

// unfit makes a BadRecord that no policy for bad records makes right: found early, the topic is refused.
func unfit(format string, args ...any) *BadRecord {
	return &BadRecord{Reason: fmt.Sprintf(format, args...), topic: true}
}

// UnknownColumns says that a record was written with a schema that the table's schema cannot hold yet: with columns
// that it lacks, or with types that need a promotion. Nothing was decided about the record. The table's list of
// schemas must be extended by Schema (schema.Extend) and the record decoded again.
type UnknownColumns struct {
	Schema *schema.Schema
	lacked []schema.Field // the columns of Schema that do not fit
}

// Error says which columns, as far as anybody wants to read on.
func (e *UnknownColumns) Error() string {
	var names []string
	for i := range e.lacked[:min(len(e.lacked), 8)] {
		f := &e.lacked[i]
		names = append(names, fmt.Sprintf("%q %s", f.Name, &f.Type))
	}
	if more := len(e.lacked) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return "a record has columns that the table's schema lacks or holds as another type: " + strings.Join(names, ", ")
}

// Unwrap makes it a fault.ErrInvalid.
func (e *UnknownColumns) Unwrap() error { return fault.ErrInvalid }
