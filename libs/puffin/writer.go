package puffin

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
)

// Writer makes one Puffin file with several deletion vectors in memory, where File makes one of a length that is
// known before. Not for concurrent use.
type Writer struct {
	body  []byte
	blobs []blobJSON
}

type blobJSON struct {
	Type       string            `json:"type"`
	Fields     []int32           `json:"fields"`
	SnapshotID int64             `json:"snapshot-id"`
	Sequence   int64             `json:"sequence-number"`
	Offset     int64             `json:"offset"`
	Length     int64             `json:"length"`
	Properties map[string]string `json:"properties"`
}

// Add appends the vector of a data file, with run containers where they are smaller: it optimises positions for that.
// It answers where the blob lies, as the manifest entry states it. Errors: fault.ErrInvalid for a vector without
// positions, which Trino cannot read.
func (w *Writer) Add(path string, positions *roaring.Bitmap) (offset, size int64, err error) {
	if positions.IsEmpty() {
		return 0, 0, fmt.Errorf("deletion vector of %s without positions: %w", path, fault.ErrInvalid)
	}
	if w.body == nil {
		w.body = append(w.body, magic...)
	}
	positions.RunOptimize()
	begin := len(w.body)
	w.body = append(w.body, 0, 0, 0, 0)
	w.body = append(w.body, vectorMagic...)
	w.body = binary.LittleEndian.AppendUint64(w.body, 1)
	w.body = binary.LittleEndian.AppendUint32(w.body, 0)
	set, err := positions.ToBytes()
	if err != nil {
		return 0, 0, fmt.Errorf("encode deletion vector: %w", err)
	}
	w.body = append(w.body, set...)
	vector := w.body[begin+4:]
	binary.BigEndian.PutUint32(w.body[begin:], uint32(len(vector)))
	w.body = binary.BigEndian.AppendUint32(w.body, crc32.ChecksumIEEE(vector))
	offset, size = int64(begin), int64(len(w.body)-begin)
	w.blobs = append(w.blobs, blobJSON{
		Type: "deletion-vector-v1", Fields: []int32{rowPositionID}, SnapshotID: -1, Sequence: -1, Offset: offset, Length: size,
		Properties: map[string]string{"referenced-data-file": path, "cardinality": strconv.FormatUint(positions.GetCardinality(), 10)},
	})
	return offset, size, nil
}

// Len answers how many bytes of vectors there are so far.
func (w *Writer) Len() int { return len(w.body) }

// Bytes closes the file: footer payload, its size, flags, magic (Puffin spec, "Footer structure"). No Add after it.
func (w *Writer) Bytes() ([]byte, error) {
	payload, err := json.Marshal(struct {
		Blobs      []blobJSON        `json:"blobs"`
		Properties map[string]string `json:"properties"`
	}{w.blobs, map[string]string{"created-by": "frazil"}})
	if err != nil {
		return nil, fmt.Errorf("encode Puffin footer: %w", err)
	}
	out := append(w.body, magic...)
	out = append(out, payload...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(payload)))
	out = append(out, 0, 0, 0, 0)
	return append(out, magic...), nil
}
