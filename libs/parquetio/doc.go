// Package parquetio writes row groups and the tail of a Parquet file apart from each other.
//
// A row group is encoded alone: its pages hold no absolute position, and what a footer must say of it travels as
// a Meta whose offsets are relative. Encoder.Tail puts any row groups that lie at any offsets into one footer that
// ends where the caller says. So a file can be assembled in any order, and re-assembled after eviction, with the
// same bytes.
//
// Bytes are a pure function of (file schema, batch, EncodingID): nothing that one Encode leaves behind is read by
// the next, nothing depends on the number of cores or on iteration order of a map.
//
// What is written: page version 1, PLAIN and, where it pays, RLE_DICTIONARY values, RLE levels, zstd at its
// fastest level with a page CRC, field ids on every node, three-level lists, column and offset indexes, no Bloom
// filters, no size statistics: what every engine reads (docs/adr/0008-parquet-go.md).
package parquetio

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// What determines bytes beside the schema and the rows. Raise codeVersion with every change of this package that
// can change a byte; the golden test fails until that is done.
const (
	codeVersion = 1
	zstdVersion = "klauspost/compress v1.20.3"
	pageVersion = "parquet-go/parquet-go v0.32.0"
	createdBy   = "frazil version 1.0.0 (build frazil)"

	pageTarget   = 1 << 20 // bytes of PLAIN values after which a page is closed
	indexBound   = 16      // bytes that a bound in a column index keeps
	statsBound   = 64      // bytes above which a column chunk states no bounds
	dictDistinct = 1 << 15 // values that a dictionary may hold
	dictProbe    = 1024    // values after which a dictionary must have begun to pay
)

// Libraries are the module versions, without github.com/, that bytes depend on.
func Libraries() []string { return []string{zstdVersion, pageVersion} }

// EncodingID is 10 base32 characters that change whenever this package may write other bytes for the same rows.
// parts is what the caller adds: the decoder's version, its options, the table's decoding configuration.
func EncodingID(parts ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "frazil encoding\n%d\n%s\n%s\n%s\n%d %d %d %d %d\n", codeVersion, zstdVersion, pageVersion, createdBy,
		pageTarget, indexBound, statsBound, dictDistinct, dictProbe)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p)
	}
	sum := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return strings.ToLower(sum[:10])
}
