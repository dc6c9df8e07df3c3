package posdelete_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/arrow-go/v18/parquet/file"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/posdelete"
)

// TestAPaddedFileHasThePositionsAndTheStatedSize: whatever number of positions turns up, none included.
func TestAPaddedFileHasThePositionsAndTheStatedSize(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, room := range []int{1, 4, 65536, 200_000} {
		size, err := posdelete.Length(int64(room), len(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, r.IntN(room + 1), room} {
			set := randomPositions(r, n)
			f, err := posdelete.Padded(path, set, size)
			if err != nil {
				t.Fatal(err)
			}
			b := write(t, f)
			if int64(len(b)) != size || f.Size() != size {
				t.Fatalf("%d positions in a room of %d: %d bytes, size %d, stated %d", n, room, len(b), f.Size(), size)
			}
			if n > 0 {
				checkArrow(t, b, set)
				checkParquetGo(t, b, set)
			} else {
				checkEmpty(t, b)
			}
			off := r.Int64N(size)
			var part bytes.Buffer
			if err := f.WriteRange(&part, off, size-off); err != nil || !bytes.Equal(part.Bytes(), b[off:]) {
				t.Fatalf("from %d of %d: %d bytes, %v", off, size, part.Len(), err)
			}
		}
	}
}

func checkEmpty(t *testing.T, b []byte) {
	t.Helper()
	rd, err := file.NewParquetReader(bytes.NewReader(b))
	if err != nil || rd.NumRows() != 0 || rd.MetaData().Schema.NumColumns() != 2 {
		t.Fatalf("arrow-go: %v", err)
	}
	f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil || f.NumRows() != 0 {
		t.Fatalf("parquet-go: %v", err)
	}
}

func TestAPaddedFileMustHaveTheRoom(t *testing.T) {
	size, err := posdelete.Length(10, len(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := posdelete.Padded(path, roaring.BitmapOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), size); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("11 positions in a room of 10: %v", err)
	}
}
