package catalog

import (
	"errors"
	"fmt"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
)

// A manifest's name that is read is printed again as it was: one name, one object. Everything else is an error
// that a reader understands.
func FuzzFileName(f *testing.F) {
	id := manifestID{"abcdefghijklmnopqrstuvwxyz", 9223372036854775807, 12}
	for _, seed := range []string{
		id.file(iceberg.Data), id.file(iceberg.PositionDeletes), "snap-12-abcdefghijklmnop.avro",
		"7-5f0ee4a5-7b6c-5a44-8a0e-111111111111.metadata.json", "snap-012-abcdefghijklmnop.avro", "", "-", "snap-.avro",
		"abcdefghijklmnopqrstuvwxyz-1-s00-w1-m0.avro", "abcdefghijklmnopqrstuvwxyz-1-s0-w01-m0.avro",
	} {
		f.Add(seed)
	}
	names := newFileNames()
	f.Fuzz(func(t *testing.T, file string) {
		n, err := names.parse(file)
		switch {
		case err != nil:
			if !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrRetired) {
				t.Errorf("%q: %v", file, err)
			}
		case n.manifest != nil:
			if file != n.manifest.file(iceberg.Data) && file != n.manifest.file(iceberg.PositionDeletes) {
				t.Errorf("%q is read as %+v", file, *n.manifest)
			}
		case n.list > 0:
			if want := fmt.Sprintf("snap-%d-", n.list); file[:len(want)] != want {
				t.Errorf("%q is read as snapshot %d", file, n.list)
			}
		default:
			if want := fmt.Sprintf("%d-", n.version); n.version == 0 || file[:len(want)] != want {
				t.Errorf("%q is read as version %d", file, n.version)
			}
		}
	})
}
