// Package build turns ranges of a log into row groups and key projections: fetch, decode, encode.
package build

import (
	"fmt"
	"strconv"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/parquetio"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/schema"
)

// Spec is everything outside the log that decides which rows a record makes and how they are encoded.
type Spec struct {
	Topic    kafkalog.Topic // name and id
	Epoch    string         // state epoch
	View     string
	HashKey  [16]byte
	Schema   *schema.Schema // the table's, without _row_id
	Decoding decode.Decoding
}

// Table is a compiled Spec. Immutable, safe for concurrent use.
type Table struct {
	Spec
	File       *schema.Schema // the file schema
	FileSchema string         // its fingerprint
	EncodingID string
	Encoder    *parquetio.Encoder
}

// Compile checks a spec. fault.ErrInvalid, fault.ErrUnsupported: it cannot be served.
func Compile(spec Spec) (*Table, error) {
	if spec.View != objectname.Current {
		return nil, fmt.Errorf("view %q: %w", spec.View, fault.ErrUnsupported)
	}
	if len(spec.Epoch) != objectname.EpochLen {
		return nil, fmt.Errorf("state epoch of %d characters: %w", len(spec.Epoch), fault.ErrInvalid)
	}
	if err := spec.Decoding.Validate(); err != nil {
		return nil, err
	}
	t := &Table{Spec: spec, File: schema.FileSchema(spec.Schema)}
	var err error
	if t.Encoder, err = parquetio.NewEncoder(t.File); err != nil {
		return nil, err
	}
	t.FileSchema = schema.Fingerprint(t.File)
	d := spec.Decoding
	parts := []string{"decoder " + strconv.Itoa(decode.Version), d.KeyFormat, d.ValueFormat, d.Envelope}
	t.EncodingID = parquetio.EncodingID(append(parts, d.KeyFields...)...)
	return t, nil
}

// decoder makes a decoder of one partition.
func (t *Table) decoder(p kafkapos.Partition, reg registry.Registry) (*decode.Decoder, error) {
	return decode.NewDecoder(decode.Spec{Schema: t.File, Decoding: t.Decoding, Partition: p, HashKey: t.HashKey}, reg)
}
