package catalogs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
)

// maxMetadata bounds table metadata, packed and unpacked, bytes.
const maxMetadata = 1 << 30

// unpack answers metadata as it lies in a store, plain or gzipped, as plain text. Its first bytes tell, whatever its
// name says.
func unpack(text []byte) ([]byte, error) {
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return text, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", fault.ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxMetadata))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", fault.ErrCorrupt, err)
	}
	return plain, nil
}
