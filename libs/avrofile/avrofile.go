// Package avrofile writes Avro object container files (Avro 1.11 spec, "Object Container Files") from records that the
// caller encodes, and has the binary forms for that. Equal records give equal bytes: the sync marker is a hash of the
// content, where other writers take a random one, and headers keep their order. Blocks are deflated, the only
// compressed codec that all readers of Iceberg have.
package avrofile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/flate"
)

const (
	ocfMagic = "Obj\x01"
	// ocfBlock is how many bytes of records are collected before a block is closed, as in Java's writer.
	ocfBlock = 64 << 10
	// deflate is the only compressed Avro codec that all readers have: snappy and zstd fail in some.
	deflateLevel = 6
)

// Property is a key of a file's header and its value. Headers are lists, not maps: their order is part of the bytes.
type Property [2]string

// Writer collects the records of one file in memory, deflated. Not for concurrent use.
type Writer struct {
	header []byte // up to the sync marker
	blocks []block
	raw    []byte
	rows   int64
	hash   hashWriter
	err    error
}

type block struct {
	rows int64
	data []byte
}

// hashWriter is the part of hash.Hash that the sync marker needs.
type hashWriter interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
}

// New begins a file of a schema; avro.schema and avro.codec need not be among the properties.
func New(schema string, properties ...Property) *Writer {
	all := append([]Property{{"avro.schema", schema}, {"avro.codec", "deflate"}}, properties...)
	header := []byte(ocfMagic)
	header = binary.AppendVarint(header, int64(len(all)))
	for _, p := range all {
		header = AppendString(header, p[0])
		header = AppendString(header, p[1])
	}
	header = binary.AppendVarint(header, 0)
	o := &Writer{header: header, hash: sha256.New()}
	o.write(header)
	return o
}

// write feeds the hash that the sync marker is made of.
func (o *Writer) write(b []byte) {
	if _, err := o.hash.Write(b); err != nil && o.err == nil {
		o.err = fmt.Errorf("hash avro block: %w", err)
	}
}

// Append adds one record: encode appends its binary form to the buffer that it gets.
func (o *Writer) Append(encode func([]byte) []byte) {
	o.raw = encode(o.raw)
	o.rows++
	if len(o.raw) >= ocfBlock {
		o.flush()
	}
}

func (o *Writer) flush() {
	if o.rows == 0 || o.err != nil {
		return
	}
	o.write(o.raw)
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, deflateLevel)
	if err == nil {
		_, err = w.Write(o.raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		o.err = fmt.Errorf("deflate avro block: %w", err)
		return
	}
	o.blocks = append(o.blocks, block{rows: o.rows, data: packed.Bytes()})
	o.raw, o.rows = o.raw[:0], 0
}

// Bytes closes the file. No Append after it.
func (o *Writer) Bytes() ([]byte, error) {
	o.flush()
	if o.err != nil {
		return nil, o.err
	}
	sync := o.hash.Sum(nil)[:16]
	size := len(o.header) + len(sync)
	for _, b := range o.blocks {
		size += len(b.data) + len(sync) + 2*binary.MaxVarintLen64
	}
	out := append(make([]byte, 0, size), o.header...)
	out = append(out, sync...)
	for _, b := range o.blocks {
		out = binary.AppendVarint(out, b.rows)
		out = binary.AppendVarint(out, int64(len(b.data)))
		out = append(out, b.data...)
		out = append(out, sync...)
	}
	return out, nil
}

// Packed answers how many bytes the file has so far, about: the open block counts as it is.
func (o *Writer) Packed() int64 {
	n := int64(len(o.header) + len(o.raw))
	for _, b := range o.blocks {
		n += int64(len(b.data))
	}
	return n
}

// Avro's binary forms. Its int and long are Go's zigzag varint.

// AppendLong appends an int or a long.
func AppendLong(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendString appends a string.
func AppendString(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

// AppendBytes appends bytes.
func AppendBytes(b, v []byte) []byte {
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// AppendNull takes the first branch of an optional field.
func AppendNull(b []byte) []byte { return append(b, 0) }

// AppendSome takes the second branch of an optional field; its value follows.
func AppendSome(b []byte) []byte { return append(b, 2) }

// AppendOptionalLong writes null when v is nil.
func AppendOptionalLong(b []byte, v *int64) []byte {
	if v == nil {
		return AppendNull(b)
	}
	return AppendLong(AppendSome(b), *v)
}
