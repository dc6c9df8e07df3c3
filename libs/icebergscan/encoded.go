package icebergscan

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/frazil-io/frazil/libs/fault"
)

// Encoding is how a manifest encodes its entries, for a writer that carries entries on without loss, whatever fields
// they have. Read-only.
type Encoding struct {
	// Header is the key-value metadata of the file, avro.schema and avro.codec left out.
	Header map[string]string
	// File is the Avro schema of the field data_file, Partition that of the record partition in it. JSON.
	File, Partition json.RawMessage
}

// Encoded answers the bytes of the entry's data_file and of the partition tuple in it, lent like the entry, and how
// they are encoded, which is the same pointer for all entries of a manifest. Errors: fault.ErrCorrupt.
func (e *Entry) Encoded() (file, partition []byte, how *Encoding, err error) {
	d := e.of
	if d.encoding == nil {
		if d.encoding, err = newEncoding(d.in.meta); err != nil {
			return nil, nil, nil, fmt.Errorf("manifest %s: %w", d.m.Path, err)
		}
	}
	return e.file, e.partition, d.encoding, nil
}

type avroFields struct {
	Fields []struct {
		Name    string          `json:"name"`
		FieldID *int32          `json:"field-id"`
		Type    json.RawMessage `json:"type"`
	} `json:"fields"`
}

// typeOf answers the type of a field, found as the decoder finds it.
func (a *avroFields) typeOf(id int32, byName func(string) int32) json.RawMessage {
	for _, f := range a.Fields {
		have := byName(f.Name)
		if f.FieldID != nil {
			have = *f.FieldID
		}
		if have == id {
			return f.Type
		}
	}
	return nil
}

func newEncoding(meta map[string][]byte) (*Encoding, error) {
	out := &Encoding{Header: map[string]string{}}
	for k, v := range meta {
		out.Header[k] = string(v)
	}
	maps.DeleteFunc(out.Header, func(k, _ string) bool { return k == "avro.schema" || k == "avro.codec" })
	var entry, file avroFields
	if err := json.Unmarshal(meta["avro.schema"], &entry); err != nil {
		return nil, fmt.Errorf("avro schema: %w: %w", fault.ErrCorrupt, err)
	}
	out.File = entry.typeOf(entryDataFile, entryFieldByName)
	if err := json.Unmarshal(out.File, &file); err != nil {
		return nil, fmt.Errorf("avro schema of data_file: %w: %w", fault.ErrCorrupt, err)
	}
	if out.Partition = file.typeOf(filePartition, fileFieldByName); out.Partition == nil {
		return nil, fmt.Errorf("avro schema without partition: %w", fault.ErrCorrupt)
	}
	return out, nil
}
