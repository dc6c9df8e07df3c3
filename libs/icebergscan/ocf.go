package icebergscan

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/frazil-io/frazil/libs/fault"
)

// Limits on what a file may ask for, bytes. Writers make blocks of 64 KiB to some MiB.
const (
	maxHeader = 64 << 20
	maxBlock  = 512 << 20
)

// ocf reads an Avro object container file block by block.
type ocf struct {
	in     *bufio.Reader
	schema *node
	meta   map[string][]byte
	codec  string
	sync   [16]byte

	packed, plain []byte // buffers, kept from block to block
	deflate       io.ReadCloser
	zstd          *zstd.Decoder
}

func openOCF(r io.Reader) (*ocf, error) {
	o := &ocf{in: bufio.NewReaderSize(r, 64<<10), meta: map[string][]byte{}}
	if err := o.header(); err != nil {
		return nil, fmt.Errorf("avro header: %w", err)
	}
	var err error
	if o.schema, err = parseAvroSchema(o.meta["avro.schema"]); err != nil {
		return nil, err
	}
	switch o.codec = string(o.meta["avro.codec"]); o.codec {
	case "", "null", "deflate", "snappy", "zstandard":
		return o, nil
	}
	return nil, fmt.Errorf("avro codec %q: %w", o.codec, fault.ErrUnsupported)
}

// close gives back what a decoder holds.
func (o *ocf) close() {
	if o.zstd != nil {
		o.zstd.Close()
	}
}

func (o *ocf) header() error {
	var magic [4]byte
	if _, err := io.ReadFull(o.in, magic[:]); err != nil {
		return cut(err)
	}
	if string(magic[:]) != "Obj\x01" {
		return fmt.Errorf("no Avro container file: %w", fault.ErrCorrupt)
	}
	left := int64(maxHeader)
	for {
		count, err := o.varint()
		if err != nil {
			return err
		}
		if count == 0 {
			break
		}
		if count < 0 {
			if _, err := o.varint(); err != nil {
				return err
			}
			count = -count
		}
		for ; count > 0; count-- {
			key, err := o.blob(&left)
			if err != nil {
				return err
			}
			value, err := o.blob(&left)
			if err != nil {
				return err
			}
			o.meta[string(key)] = value
		}
	}
	_, err := io.ReadFull(o.in, o.sync[:])
	return cut(err)
}

func (o *ocf) varint() (int64, error) {
	v, err := binary.ReadUvarint(o.in)
	if err != nil {
		return 0, cut(err)
	}
	return int64(v>>1) ^ -int64(v&1), nil
}

func (o *ocf) blob(left *int64) ([]byte, error) {
	n, err := o.varint()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > *left {
		return nil, fmt.Errorf("header longer than %d bytes: %w", maxHeader, fault.ErrCorrupt)
	}
	*left -= n + 1
	return readInto(o.in, nil, n)
}

// cut turns an end that comes too early into corruption; failures of the store stay what they are.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("cut short: %w", fault.ErrCorrupt)
	}
	return err
}

// next answers the plain bytes of the next block and how many items it holds. The bytes are valid until the next
// call. io.EOF after the last block.
func (o *ocf) next() ([]byte, int64, error) {
	if _, err := o.in.Peek(1); errors.Is(err, io.EOF) {
		return nil, 0, io.EOF
	}
	count, err := o.varint()
	if err != nil {
		return nil, 0, err
	}
	size, err := o.varint()
	if err != nil {
		return nil, 0, err
	}
	if count < 0 || size < 0 || size > maxBlock {
		return nil, 0, fmt.Errorf("avro block of %d items and %d bytes: %w", count, size, fault.ErrCorrupt)
	}
	if o.packed, err = readInto(o.in, o.packed, size); err != nil {
		return nil, 0, err
	}
	var sync [16]byte
	if _, err := io.ReadFull(o.in, sync[:]); err != nil {
		return nil, 0, cut(err)
	}
	if sync != o.sync {
		return nil, 0, fmt.Errorf("avro block without its sync marker: %w", fault.ErrCorrupt)
	}
	plain, err := o.unpack()
	if err != nil {
		return nil, 0, fmt.Errorf("unpack %s block: %w", o.codec, err)
	}
	return plain, count, nil
}

// readInto reads n bytes into buf, which grows as bytes arrive and not before.
func readInto(r io.Reader, buf []byte, n int64) ([]byte, error) {
	const step = 1 << 20
	buf = buf[:0]
	for n > 0 {
		grow := int(min(n, step))
		have := len(buf)
		if cap(buf)-have < grow {
			bigger := make([]byte, have, max(2*cap(buf), have+grow))
			copy(bigger, buf)
			buf = bigger
		}
		buf = buf[:have+grow]
		if _, err := io.ReadFull(r, buf[have:]); err != nil {
			return nil, cut(err)
		}
		n -= int64(grow)
	}
	return buf, nil
}

func (o *ocf) unpack() ([]byte, error) {
	switch o.codec {
	case "deflate":
		return o.inflate()
	case "snappy":
		return o.unsnappy()
	case "zstandard":
		if o.zstd == nil {
			var err error
			if o.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock)); err != nil {
				return nil, fmt.Errorf("make decoder: %w", err)
			}
		}
		out, err := o.zstd.DecodeAll(o.packed, o.plain[:0])
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
		}
		o.plain = out
		return out, nil
	}
	return o.packed, nil
}

func (o *ocf) inflate() ([]byte, error) {
	in := bytes.NewReader(o.packed)
	if o.deflate == nil {
		o.deflate = flate.NewReader(in)
	} else if err := o.deflate.(flate.Resetter).Reset(in, nil); err != nil { //nolint:errcheck // the reader of flate always is one
		return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	out := bytes.NewBuffer(o.plain[:0])
	n, err := io.Copy(out, io.LimitReader(o.deflate, maxBlock+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	if n > maxBlock {
		return nil, fmt.Errorf("more than %d bytes: %w", maxBlock, fault.ErrCorrupt)
	}
	o.plain = out.Bytes()
	return o.plain, nil
}

// unsnappy reads a raw snappy block with the big-endian CRC-32 of the plain bytes behind it (Avro spec, "snappy").
func (o *ocf) unsnappy() ([]byte, error) {
	if len(o.packed) < 4 {
		return nil, fmt.Errorf("cut short: %w", fault.ErrCorrupt)
	}
	body, sum := o.packed[:len(o.packed)-4], o.packed[len(o.packed)-4:]
	n, err := snappy.DecodedLen(body)
	// Three bytes of snappy copy at most 64: a longer claim is not allocated for.
	if err != nil || n > maxBlock || n > 32*len(body)+64 {
		return nil, fmt.Errorf("stated length %d: %w", n, fault.ErrCorrupt)
	}
	out, err := snappy.Decode(o.plain[:cap(o.plain)], body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrCorrupt, err)
	}
	if crc32.ChecksumIEEE(out) != binary.BigEndian.Uint32(sum) {
		return nil, fmt.Errorf("checksum: %w", fault.ErrCorrupt)
	}
	o.plain = out
	return out, nil
}
