package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/frazil-io/frazil/libs/fault"
)

// Compression codecs, as in a batch's attributes.
const (
	codecNone = iota
	codecGzip
	codecSnappy
	codecLZ4
	codecZstd
)

// keepBuffer is the largest buffer that stays for the next batch, in bytes.
const keepBuffer = 16 << 20

// xerialMagic begins snappy data of the Java clients, which frame it in blocks of their own: magic, two version
// numbers of four bytes, then blocks of a four-byte length and a snappy block.
const xerialMagic = "\x82SNAPPY\x00"

// errLimit is the reason for giving up on a batch.
var errLimit = fmt.Errorf("more bytes than a batch may have: %w", fault.ErrUnsupported)

// inflater decompresses record batches into one buffer that it re-uses.
type inflater struct {
	limit int // bytes
	buf   []byte
	in    bytes.Reader
	gzip  *gzip.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
}

// inflate answers the decompressed body; it aliases src or the inflater's buffer until the next call.
func (f *inflater) inflate(codec uint16, src []byte) ([]byte, error) {
	if codec == codecNone {
		return src, nil
	}
	if cap(f.buf) > keepBuffer {
		f.buf = nil
	}
	out, err := f.decompress(codec, src)
	switch {
	case errors.Is(err, fault.ErrUnsupported):
		return nil, err
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(out) > f.limit:
		return nil, errLimit
	case err != nil:
		return nil, fmt.Errorf("%w: %w", err, fault.ErrCorrupt)
	}
	f.buf = out
	return out, nil
}

func (f *inflater) decompress(codec uint16, src []byte) ([]byte, error) {
	switch codec {
	case codecGzip:
		f.in.Reset(src)
		if f.gzip == nil {
			f.gzip = new(gzip.Reader)
		}
		if err := f.gzip.Reset(&f.in); err != nil {
			return nil, err
		}
		return f.readAll(f.gzip)
	case codecSnappy:
		return f.snappy(src)
	case codecLZ4:
		f.in.Reset(src)
		if f.lz4 == nil {
			f.lz4 = lz4.NewReader(nil)
		}
		f.lz4.Reset(&f.in)
		return f.readAll(f.lz4)
	case codecZstd:
		if f.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(f.limit)))
			if err != nil {
				return nil, err
			}
			f.zstd = d
		}
		return f.zstd.DecodeAll(src, f.buf[:0])
	default:
		return nil, fmt.Errorf("compression codec %d: %w", codec, fault.ErrUnsupported)
	}
}

// readAll reads r into the buffer, up to one byte more than the limit.
func (f *inflater) readAll(r io.Reader) ([]byte, error) {
	buf := f.buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		case len(buf) > f.limit:
			return nil, errLimit
		}
	}
}

func (f *inflater) snappy(src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return f.snappyBlock(f.buf[:0], src)
	}
	const frameHeader = len(xerialMagic) + 8
	if len(src) < frameHeader {
		return nil, io.ErrUnexpectedEOF
	}
	out := f.buf[:0]
	for src = src[frameHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n > int64(len(src)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if out, err = f.snappyBlock(out, src[:n]); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return out, nil
}

// snappyBlock appends one decompressed block to dst.
func (f *inflater) snappyBlock(dst, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > f.limit-len(dst) {
		return nil, errLimit
	}
	at := len(dst)
	for cap(dst) < at+n {
		dst = append(dst[:cap(dst)], 0)
	}
	dst = dst[:at+n]
	if _, err := s2.Decode(dst[at:], block); err != nil {
		return nil, err
	}
	return dst, nil
}
