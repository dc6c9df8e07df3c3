// Package puffin renders Puffin files with one deletion vector, the delete files of format version 3. The
// length of a file follows from the cardinalities of its containers, so that a manifest can state it before
// the vector is composed.
//
// Source: Iceberg's Puffin specification, "deletion-vector-v1", and the roaring bitmap serialization
// specification. There are no run containers, as iceberg's own writers would make: their size follows from
// the positions and not from their number.
package puffin

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
)

const (
	magic        = "PFA1"
	vectorMagic  = "\xD1\xD3\x39\x64"
	blobOffset   = int64(len(magic))
	blobEnvelope = 4 + 4 + 4 // length, magic, CRC
	footerTail   = 4 + 4 + 4 // payload size, flags, magic

	// rowPositionField is the reserved id of the row position, which the blob's fields name, as Iceberg's Java
	// writer does.
	rowPositionField = "2147483645"
	rowPositionID    = 2147483645

	noRunCookie    = 12346
	containerSpan  = 1 << 16
	maxArray       = 4096
	bitmapBytes    = containerSpan / 8
	vectorHead     = 8 + 4 + 4 + 4 // number of 32-bit bitmaps, key of the only one; its cookie and containers
	containerHead  = 2 + 2 + 4     // key, cardinality less one; offset
	maxContainers  = 1 << 16
	payloadPattern = `{"blobs":[{"type":"deletion-vector-v1","fields":[` + rowPositionField + `],"snapshot-id":-1,"sequence-number":-1,` +
		`"offset":%d,"length":%d,"properties":{"referenced-data-file":"%s","cardinality":"%d"}}],"properties":{"created-by":"frazil"}}`
)

// Shape is where things lie in a file: what the manifest entry of a deletion vector states. Bytes.
type Shape struct {
	FileSize int64
	// BlobOffset and BlobSize are the entry's content_offset and content_size_in_bytes.
	BlobOffset, BlobSize int64
	// Cardinality is the number of positions, the entry's record count.
	Cardinality int64
}

// Length answers the shape of the file with containers[i] positions in [i<<16, (i+1)<<16), for a data file
// whose path has pathLen characters. fault.ErrInvalid: no position, or more than there can be.
func Length(containers []uint32, pathLen int) (Shape, error) {
	vector, n := int64(vectorHead), int64(0)
	for i, c := range containers {
		if c > containerSpan || i >= maxContainers {
			return Shape{}, fmt.Errorf("deletion vector: container %d of %d positions: %w", i, c, fault.ErrInvalid)
		}
		if c == 0 {
			continue
		}
		n += int64(c)
		vector += containerHead + containerBytes(int(c))
	}
	if n == 0 {
		return Shape{}, fmt.Errorf("deletion vector without positions: %w", fault.ErrInvalid)
	}
	s := Shape{BlobOffset: blobOffset, BlobSize: vector + blobEnvelope, Cardinality: n}
	payload := len(fmt.Sprintf(payloadPattern, s.BlobOffset, s.BlobSize, "", n)) + pathLen
	s.FileSize = s.BlobOffset + s.BlobSize + int64(len(magic)+payload+footerTail)
	return s, nil
}

// containerBytes is the size of a container's values: an array of 16-bit numbers, or a bitmap.
func containerBytes(cardinality int) int64 {
	if cardinality <= maxArray {
		return 2 * int64(cardinality)
	}
	return bitmapBytes
}

// File is a rendered Puffin file. Immutable; safe for concurrent use.
type File struct {
	shape Shape
	bytes []byte
}

// New renders the deletion vector of the data file at path, the full URI that its manifest entry states.
// fault.ErrInvalid: there is no position, or the path has a character that its place in the footer would
// have to escape.
func New(path string, positions *roaring.Bitmap) (*File, error) {
	for _, r := range path {
		if r < 0x20 || r >= 0x7f || r == '"' || r == '\\' {
			return nil, fmt.Errorf("deletion vector of %s: character in the path: %w", strconv.Quote(path), fault.ErrInvalid)
		}
	}
	containers := cardinalities(positions)
	s, err := Length(containers, len(path))
	if err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, s.FileSize), magic...)
	b = appendBlob(b, positions, containers, s)
	b = append(b, magic...)
	payload := fmt.Sprintf(payloadPattern, s.BlobOffset, s.BlobSize, path, s.Cardinality)
	b = append(b, payload...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, 0, 0, 0, 0) // flags: the payload is not compressed
	b = append(b, magic...)
	if int64(len(b)) != s.FileSize {
		return nil, fmt.Errorf("deletion vector of %s: %d bytes, want %d: %w", path, len(b), s.FileSize, fault.ErrCorrupt)
	}
	return &File{shape: s, bytes: b}, nil
}

// Shape says where things lie in the file.
func (f *File) Shape() Shape { return f.shape }

// Size is the file's length in bytes.
func (f *File) Size() int64 { return f.shape.FileSize }

// WriteRange writes bytes [off, off+n) of the file to w. fault.ErrInvalid: they are not all in the file.
func (f *File) WriteRange(w io.Writer, off, n int64) error {
	if off < 0 || n < 0 || off > f.Size() || n > f.Size()-off {
		return fmt.Errorf("bytes [%d,%d) of a Puffin file of %d: %w", off, off+n, f.Size(), fault.ErrInvalid)
	}
	_, err := w.Write(f.bytes[off : off+n])
	return err
}

func cardinalities(positions *roaring.Bitmap) []uint32 {
	if positions.IsEmpty() {
		return nil
	}
	out := make([]uint32, positions.Maximum()/containerSpan+1)
	for i := range out {
		from := uint64(i) * containerSpan
		out[i] = uint32(positions.CardinalityInRange(from, from+containerSpan))
	}
	return out
}

// appendBlob appends the blob: length and CRC big endian, the vector little endian.
func appendBlob(b []byte, positions *roaring.Bitmap, containers []uint32, s Shape) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(s.BlobSize-4-4))
	begin := len(b)
	b = append(b, vectorMagic...)
	b = binary.LittleEndian.AppendUint64(b, 1)
	b = binary.LittleEndian.AppendUint32(b, 0)
	bitmap := len(b)
	filled := 0
	for _, c := range containers {
		if c > 0 {
			filled++
		}
	}
	b = binary.LittleEndian.AppendUint32(b, noRunCookie)
	b = binary.LittleEndian.AppendUint32(b, uint32(filled))
	for i, c := range containers {
		if c > 0 {
			b = binary.LittleEndian.AppendUint16(b, uint16(i))
			b = binary.LittleEndian.AppendUint16(b, uint16(c-1))
		}
	}
	at := len(b) - bitmap + 4*filled
	for _, c := range containers {
		if c > 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(at))
			at += int(containerBytes(int(c)))
		}
	}
	b = appendContainers(b, positions, containers)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[begin:]))
}

func appendContainers(b []byte, positions *roaring.Bitmap, containers []uint32) []byte {
	it := positions.ManyIterator()
	buf := make([]uint32, containerSpan)
	for _, c := range containers {
		values := buf[:c]
		for got := 0; got < len(values); {
			got += it.NextMany(values[got:])
		}
		if c <= maxArray {
			for _, v := range values {
				b = binary.LittleEndian.AppendUint16(b, uint16(v&math.MaxUint16))
			}
			continue
		}
		begin := len(b)
		b = append(b, make([]byte, bitmapBytes)...)
		for _, v := range values {
			low := v & math.MaxUint16
			b[begin+int(low/8)] |= 1 << (low % 8)
		}
	}
	return b
}
