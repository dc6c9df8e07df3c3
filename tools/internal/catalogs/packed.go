package catalogs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// maxMetadata bounds unpacked table metadata, bytes.
const maxMetadata = 1 << 30

// parseMaybePacked reads metadata as it lies in the store: plain or gzipped, which its first bytes tell whatever its
// name says.
func parseMaybePacked(text []byte) (*icebergscan.Table, error) {
	if !bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		return icebergscan.ParseTable(text)
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", fault.ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxMetadata))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", fault.ErrCorrupt, err)
	}
	return icebergscan.ParseTable(plain)
}
