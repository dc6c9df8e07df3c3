package iceberg

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

// property is one key of an Avro file's header. Headers are lists, not maps: their order is part of the bytes.
type property struct {
	key, value string
}

// ocf collects records of an Avro object container file (Avro 1.11 spec, "Object Container Files").
type ocf struct {
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

func newOCF(schema string, properties ...property) *ocf {
	all := append([]property{{"avro.schema", schema}, {"avro.codec", "deflate"}}, properties...)
	header := []byte(ocfMagic)
	header = binary.AppendVarint(header, int64(len(all)))
	for _, p := range all {
		header = appendString(header, p.key)
		header = appendString(header, p.value)
	}
	header = binary.AppendVarint(header, 0)
	o := &ocf{header: header, hash: sha256.New()}
	o.write(header)
	return o
}

// write feeds the hash that the sync marker is made of.
func (o *ocf) write(b []byte) {
	if _, err := o.hash.Write(b); err != nil && o.err == nil {
		o.err = fmt.Errorf("hash avro block: %w", err)
	}
}

// append adds one record: encode appends its binary form to the buffer that it gets.
func (o *ocf) append(encode func([]byte) []byte) {
	o.raw = encode(o.raw)
	o.rows++
	if len(o.raw) >= ocfBlock {
		o.flush()
	}
}

func (o *ocf) flush() {
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

// bytes closes the file. The sync marker is a hash of the content, where other writers take a random one.
func (o *ocf) bytes() ([]byte, error) {
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

// Avro's binary forms. Its int and long are Go's zigzag varint.

func appendLong(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

func appendString(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}

// appendNull takes the first branch of an optional field.
func appendNull(b []byte) []byte { return append(b, 0) }

// appendSome takes the second branch of an optional field; its value follows.
func appendSome(b []byte) []byte { return append(b, 2) }

// appendOptionalLong writes null when v is nil.
func appendOptionalLong(b []byte, v *int64) []byte {
	if v == nil {
		return appendNull(b)
	}
	return appendLong(appendSome(b), *v)
}
