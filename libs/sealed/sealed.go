// Package sealed frames the small persistent formats: four bytes of magic, one byte of version, the body, and
// a CRC-32C over all of it. See docs/FORMAT.md.
package sealed

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/frazil-io/frazil/libs/fault"
)

// Overhead is what a frame adds to its body, in bytes.
const Overhead = headerSize + crcSize

const (
	headerSize = 5
	crcSize    = 4
)

// Magic names a format: four ASCII characters.
type Magic string

// Begin appends the head of a frame to an empty buffer with room for a body of about size bytes. The caller
// appends the body and calls End.
func Begin(m Magic, version byte, size int) []byte {
	b := make([]byte, 0, size+Overhead)
	return append(append(b, m...), version)
}

// End appends the checksum to a buffer that Begin made.
func End(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, Checksum(b))
}

// Open verifies a frame and answers its body, which aliases b. fault.ErrCorrupt: the bytes do not verify, or are of
// another format. fault.ErrUnsupported: they verify, and are of a version that this program does not read: whoever
// replaces damaged values must leave these alone.
func Open(m Magic, version byte, b []byte) ([]byte, error) {
	if len(b) < Overhead {
		return nil, fmt.Errorf("open %s of %d bytes: too short: %w", m, len(b), fault.ErrCorrupt)
	}
	if Magic(b[:4]) != m {
		return nil, fmt.Errorf("open %s: magic %q: %w", m, b[:4], fault.ErrCorrupt)
	}
	end := len(b) - crcSize
	if got, want := Checksum(b[:end]), binary.LittleEndian.Uint32(b[end:]); got != want {
		return nil, fmt.Errorf("open %s: checksum %08x, want %08x: %w", m, got, want, fault.ErrCorrupt)
	}
	if b[4] != version {
		return nil, fmt.Errorf("open %s: version %d, this program reads %d: run the one that wrote it: %w", m, b[4], version, fault.ErrUnsupported)
	}
	return b[headerSize:end], nil
}

// Checksum is the CRC-32C of b.
func Checksum(b []byte) uint32 {
	return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
}

// Reader takes fields off a body. After the first field that does not fit, Err answers fault.ErrCorrupt and
// every further field is zero. The zero value reads an empty body.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b, which it does not change.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err is the first failure.
func (r *Reader) Err() error { return r.err }

// Len is the number of bytes left.
func (r *Reader) Len() int { return len(r.b) }

// Fail makes what a caller found wrong in a field the reader's error, unless there is one.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format+": %w", append(args, fault.ErrCorrupt)...)
	}
	r.b = nil
}

// Bytes takes n bytes, aliasing the body.
func (r *Reader) Bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.Fail("field of %d bytes, %d left", n, len(r.b))
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// Byte takes one byte.
func (r *Reader) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint32 takes four bytes, little endian.
func (r *Reader) Uint32() uint32 {
	if b := r.Bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Int64 takes eight bytes, little endian.
func (r *Reader) Int64() int64 {
	if b := r.Bytes(8); b != nil {
		return int64(binary.LittleEndian.Uint64(b))
	}
	return 0
}

// Uvarint takes an unsigned varint of at most limit.
func (r *Reader) Uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.Fail("varint %d in %d bytes, limit %d", v, n, limit)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Done answers the first failure, or fault.ErrCorrupt when bytes are left.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.Fail("%d bytes left over", len(r.b))
	}
	return r.err
}
