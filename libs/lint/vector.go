package lint

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/puffin"
	"github.com/frazil-io/frazil/libs/readers"
)

// maxVector is how long a deletion vector may be, bytes; a bitmap of 2^32 positions has half of it.
const maxVector = 1 << 30

// vector checks a deletion vector and the Puffin file around it.
func (o *opened) vector(f File, d *vectorFile) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", d.path, err)
	}
	if d.size < 0 || d.size > maxVector || d.offset+d.size > size {
		return fmt.Errorf("the vector at %d of %d bytes is not in the file of %d: %w", d.offset, d.size, size, fault.ErrCorrupt)
	}
	blob := make([]byte, d.size)
	if err := readAt(f, blob, d.offset); err != nil {
		return fmt.Errorf("read %s: %w", d.path, err)
	}
	cardinality, highest, err := readVector(blob)
	if err != nil {
		return err
	}
	if cardinality == 0 {
		o.found.add("vector-empty", Error, nil, "a deletion vector without positions: Trino fails", d.path)
	}
	if cardinality != d.records {
		o.breach("vector-cardinality", readers.DeletionVector, readers.ExactCardinality,
			fmt.Sprintf("a deletion vector of %d positions states %d: Spark, Flink, Sail, DataFusion and iceberg-go fail", cardinality, d.records), d.path)
	}
	if n, ok := o.kept.live[d.target]; ok && highest >= n {
		o.found.add("positions-beyond-data", Warning, nil, "a deletion vector has positions beyond the rows of its data file: Polars returns wrong rows", d.path)
	}
	if text := footer(f, size, d, cardinality); text != "" {
		o.breach("vector-footer", readers.DeletionVector, readers.PuffinFooter, text+": PyIceberg, Polars, DuckDB and iceberg-go need it", d.path)
	}
	return nil
}

func readAt(r io.ReaderAt, into []byte, off int64) error {
	n, err := r.ReadAt(into, off)
	if n == len(into) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("cut short: %w", fault.ErrCorrupt)
	}
	return err
}

// readVector answers how many positions there are, and the highest; -1 if there is none.
func readVector(blob []byte) (cardinality, highest int64, err error) {
	highest = -1
	err = puffin.EachBitmap(blob, func(high uint32, low *roaring.Bitmap) {
		cardinality += int64(low.GetCardinality())
		highest = max(highest, int64(high)<<32|int64(low.Maximum()))
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read vector: %w", err)
	}
	return cardinality, highest, nil
}

// The end of a Puffin file (Puffin spec, "Footer structure"): magic, payload, its length, flags, magic.
const (
	puffinMagic   = "PFA1"
	puffinTail    = 12
	maxFooter     = 64 << 20
	puffinZstdBit = 1
)

// footer says what is wrong with the footer as far as the vector needs it; "" if nothing is.
func footer(f io.ReaderAt, size int64, d *vectorFile, cardinality int64) string {
	var tail [puffinTail]byte
	if size < puffinTail+4 || readAt(f, tail[:], size-puffinTail) != nil || string(tail[8:]) != puffinMagic {
		return "the file of a deletion vector has no Puffin footer"
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if tail[4]&puffinZstdBit != 0 {
		return "the footer of a Puffin file is compressed"
	}
	if length > maxFooter || length > size-puffinTail-8 {
		return "the footer of a Puffin file is longer than the file"
	}
	payload := make([]byte, length+4)
	if readAt(f, payload, size-puffinTail-length-4) != nil || string(payload[:4]) != puffinMagic {
		return "the footer of a Puffin file does not begin with its magic"
	}
	var meta struct {
		Blobs []struct {
			Type       string            `json:"type"`
			Offset     int64             `json:"offset"`
			Length     int64             `json:"length"`
			Properties map[string]string `json:"properties"`
		} `json:"blobs"`
	}
	if json.Unmarshal(payload[4:], &meta) != nil {
		return "the footer of a Puffin file is no JSON"
	}
	for _, b := range meta.Blobs {
		if b.Type != "deletion-vector-v1" || b.Offset != d.offset || b.Length != d.size {
			continue
		}
		switch {
		case b.Properties["referenced-data-file"] != d.target:
			return "the footer of a Puffin file names another data file than the manifest"
		case b.Properties["cardinality"] != strconv.FormatInt(cardinality, 10):
			return "the footer of a Puffin file states another cardinality than the vector has"
		}
		return ""
	}
	return "the footer of a Puffin file does not list the vector of the manifest"
}
