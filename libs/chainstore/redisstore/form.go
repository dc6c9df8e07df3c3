package redisstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/frazil-io/frazil/libs/fault"
)

// The first byte of a blob's stored form.
const (
	formInline = 0 // the bytes follow
	formPieces = 1 // the length (uvarint) and the SHA-256 (first 16 bytes) of what the pieces make together
)

const sumSize = 16

// form is how a blob lies in its group's hash.
type form struct {
	stored string
	size   int    // bytes of the blob
	sum    []byte // nil: inline
}

func formOf(value []byte) form {
	if len(value) <= pieceSize {
		return form{stored: string(append([]byte{formInline}, value...)), size: len(value)}
	}
	sum := sumOf(value)
	stored := binary.AppendUvarint([]byte{formPieces}, uint64(len(value)))
	return form{stored: string(append(stored, sum...)), size: len(value), sum: sum}
}

// parseForm reads a stored form. fault.ErrCorrupt: it is none.
func parseForm(stored string) (form, error) {
	if len(stored) > 0 && stored[0] == formInline {
		return form{stored: stored, size: len(stored) - 1}, nil
	}
	if len(stored) > 0 && stored[0] == formPieces {
		size, n := binary.Uvarint([]byte(stored[1:min(len(stored), 1+binary.MaxVarintLen64)]))
		if n > 0 && size > pieceSize && size <= MaxBlob && len(stored) == 1+n+sumSize {
			return form{stored: stored, size: int(size), sum: []byte(stored[1+n:])}, nil
		}
	}
	return form{}, fmt.Errorf("its stored form is not understood: %w", fault.ErrCorrupt)
}

// inline is the blob of a form without pieces.
func (f form) inline() string { return f.stored[1:] }

// pieces are the Redis keys of the pieces, in order; nil if there is none.
func (f form) pieces(k keyspace, p place) []string {
	if f.sum == nil {
		return nil
	}
	sum := hex.EncodeToString(f.sum)
	var out []string
	for i := 0; i*pieceSize < f.size; i++ {
		out = append(out, k.piece(p, sum, strconv.Itoa(i)))
	}
	return out
}

// matches reports whether b is the blob.
func (f form) matches(b []byte) bool { return len(b) == f.size && string(sumOf(b)) == string(f.sum) }

func sumOf(b []byte) []byte {
	sum := sha256.Sum256(b)
	return sum[:sumSize]
}
