package decode

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/registry"
)

// Decoder decodes the records of one partition of one table. It keeps compiled programs and buffers, so it is used
// by one goroutine at a time.
type Decoder struct {
	spec Spec
	reg  registry.Registry
}

// NewDecoder checks spec. reg may be nil when neither format is FormatAvro.
// Errors: fault.ErrInvalid.
func NewDecoder(spec Spec, reg registry.Registry) (*Decoder, error) {
	if err := spec.Decoding.Validate(); err != nil {
		return nil, err
	}
	return &Decoder{spec: spec, reg: reg}, nil
}

// Decode says what rec is and, for class Row, appends its row to dst: the metadata columns, the value's columns, key
// columns that the value lacks, and _row_id. dst must have been made with the spec's Schema; nil asks for the event
// only, which is the same for every dst. dst is unchanged when the class is not Row. rec is not kept.
//
// For class Bad the error is a *BadRecord. Every other error decides nothing about the record and comes with a zero
// Event: *UnknownColumns, fault.ErrUnavailable and fault.ErrDenied (the registry), and ctx's.
func (d *Decoder) Decode(ctx context.Context, rec *kafkalog.Record, dst *column.Batch) (Event, error) {
	return Event{}, fmt.Errorf("decode: %w", fault.ErrUnsupported)
}
