package datafile

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Positions reads a position delete file: the path of a data file and a row position for each row, in the file's
// order. The path is lent. Errors: those of Read.
func Positions(ctx context.Context, src Source, yield func(path []byte, pos int64)) error {
	columns := []Column{
		{Field: icebergscan.Field{ID: icebergscan.PathFieldID, Name: "file_path", Type: "string", Path: []int32{icebergscan.PathFieldID}}},
		{Field: icebergscan.Field{ID: icebergscan.PosFieldID, Name: "pos", Type: "long", Path: []int32{icebergscan.PosFieldID}}},
	}
	names := &NameMapping{fields: []mapped{
		{ID: &columns[0].Field.ID, Names: []string{"file_path"}}, {ID: &columns[1].Field.ID, Names: []string{"pos"}},
	}}
	var key []byte
	for b, err := range Read(ctx, src, columns, Options{Names: names}) {
		if err != nil {
			return err
		}
		for i := range b.Rows {
			key = b.AppendKey(key[:0], i, []int{0, 1})
			if len(key) < 3 || key[0] != tagSome {
				return fmt.Errorf("read %s: a row without a path: %w", src.Path, fault.ErrCorrupt)
			}
			n, used := binary.Uvarint(key[1:])
			path := key[1+used : 1+used+int(n)]
			rest := key[1+used+int(n):]
			if len(rest) != 9 {
				return fmt.Errorf("read %s: a row without a position: %w", src.Path, fault.ErrCorrupt)
			}
			yield(path, int64(binary.BigEndian.Uint64(rest[1:])))
		}
	}
	return nil
}
