package puffin_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	icebergpuffin "github.com/apache/iceberg-go/puffin"
	"github.com/apache/iceberg-go/table/dv"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/puffin"
)

const path = "s3://frazil/orders-abcdefghijklmnop/current/data/0/0-1048576-v0-b16-saaaaaaaaaa-ebbbbbbbbbb-z12345-cccccccccc.parquet"

// randomPositions makes bitmaps with every kind of container: sparse, full, exactly at the limit of an array.
func randomPositions(r *rand.Rand) *roaring.Bitmap {
	set := roaring.New()
	for range 1 + r.IntN(5) {
		base := uint64(r.IntN(40)) << 16
		switch r.IntN(5) {
		case 0:
			set.Add(uint32(base) + r.Uint32N(1<<16))
		case 1:
			set.AddRange(base, base+1<<16)
		case 2:
			set.AddRange(base, base+4095+uint64(r.IntN(3)))
		case 3:
			for range 1 + r.IntN(6000) {
				set.Add(uint32(base) + r.Uint32N(1<<16))
			}
		default:
			from := base + uint64(r.IntN(1<<16))
			set.AddRange(from, from+uint64(1+r.IntN(1<<17)))
		}
	}
	if r.IntN(2) == 0 {
		set.RunOptimize() // run containers in memory must not get into the file
	}
	return set
}

func cardinalities(set *roaring.Bitmap) []uint32 {
	out := make([]uint32, set.Maximum()>>16+1)
	for it := set.Iterator(); it.HasNext(); {
		out[it.Next()>>16]++
	}
	return out
}

func write(t *testing.T, f *puffin.File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteRange(&b, 0, f.Size()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLengthIsAFormulaAndIcebergReadsBack: what a manifest states is what the bytes hold.
func TestLengthIsAFormulaAndIcebergReadsBack(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		set := randomPositions(r)
		name := path + strings.Repeat("x", r.IntN(50))
		want, err := puffin.Length(cardinalities(set), len(name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := puffin.New(name, set)
		if err != nil {
			t.Fatal(err)
		}
		b := write(t, f)
		if f.Shape() != want || int64(len(b)) != want.FileSize {
			t.Fatalf("shape %+v, %d bytes; formula %+v", f.Shape(), len(b), want)
		}
		checkRead(t, b, name, set, want)
	}
}

func checkRead(t *testing.T, b []byte, name string, set *roaring.Bitmap, s puffin.Shape) {
	t.Helper()
	reader, err := icebergpuffin.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	blob := reader.Blobs()[0]
	if blob.Offset != s.BlobOffset || blob.Length != s.BlobSize || blob.SnapshotID != -1 || blob.SequenceNumber != -1 ||
		blob.Properties["referenced-data-file"] != name || blob.CompressionCodec != nil || blob.Type != icebergpuffin.BlobTypeDeletionVector {
		t.Fatalf("blob %+v, shape %+v", blob, s)
	}
	got, err := dv.DeserializeDV(b[s.BlobOffset:s.BlobOffset+s.BlobSize], s.Cardinality)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for pos := range got.Positions() {
		if !set.Contains(uint32(pos)) {
			t.Fatalf("position %d was not written", pos)
		}
		n++
	}
	if n != set.GetCardinality() {
		t.Fatalf("%d positions, want %d", n, set.GetCardinality())
	}
}

// TestSameBytesAsJava: but for the name of the program.
func TestSameBytesAsJava(t *testing.T) {
	java, err := os.ReadFile("testdata/java-single-blob.puffin")
	if err != nil {
		t.Fatal(err)
	}
	f, err := puffin.New("s3://warehouse/db/table/data/00000-0-abc.parquet", roaring.BitmapOf(1, 3, 5, 7, 9))
	if err != nil {
		t.Fatal(err)
	}
	ours := write(t, f)
	cut := bytes.Index(java, []byte(`"properties":{"created-by"`))
	if cut < 0 || !bytes.Equal(ours[:cut], java[:cut]) {
		t.Errorf("ours\n%q\nJava\n%q", ours, java)
	}
	if tail := len(java) - 8; !bytes.Equal(ours[len(ours)-8:], java[tail:]) {
		t.Errorf("ours ends %q, Java %q", ours[len(ours)-8:], java[tail:])
	}
}

func TestEveryRangeOfTheFile(t *testing.T) {
	f, err := puffin.New(path, roaring.BitmapOf(0, 7, 70000))
	if err != nil {
		t.Fatal(err)
	}
	whole := write(t, f)
	for off := range int64(len(whole)) {
		n := (int64(len(whole)) - off) / 2
		var b bytes.Buffer
		if err := f.WriteRange(&b, off, n); err != nil || !bytes.Equal(b.Bytes(), whole[off:off+n]) {
			t.Fatalf("range [%d,%d): %v", off, off+n, err)
		}
	}
	if err := f.WriteRange(&bytes.Buffer{}, 1, f.Size()); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("beyond the end: %v", err)
	}
}

// TestNoEmptyVector: Trino rejects a vector without positions; a file without marks has no delete file.
func TestNoEmptyVector(t *testing.T) {
	if _, err := puffin.New(path, roaring.New()); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("no positions: %v", err)
	}
	if _, err := puffin.Length([]uint32{0, 0}, 10); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("no cardinality: %v", err)
	}
	if _, err := puffin.New(`s3://a/"b`, roaring.BitmapOf(1)); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("quote in the path: %v", err)
	}
}
