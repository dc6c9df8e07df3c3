package puffin_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	icebergpuffin "github.com/apache/iceberg-go/puffin"
	"github.com/apache/iceberg-go/table/dv"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/puffin"
)

func TestReadVectorOfAnotherWriter(t *testing.T) {
	theirs := dv.NewRoaringPositionBitmap()
	want := roaring.New()
	for i := range uint32(100_000) {
		if i%7 == 0 || i > 90_000 {
			theirs.Set(uint64(i))
			want.Add(i)
		}
	}
	blob, err := dv.SerializeDV(theirs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := puffin.ReadVector(blob)
	if err != nil || !got.Equals(want) {
		t.Fatalf("%d positions, want %d: %v", got.GetCardinality(), want.GetCardinality(), err)
	}
	for _, i := range []int{0, 4, 9, 20, len(blob) - 1} {
		bad := bytes.Clone(blob)
		bad[i] ^= 1
		if _, err := puffin.ReadVector(bad); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	theirs.Set(1 << 32)
	if blob, err = dv.SerializeDV(theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := puffin.ReadVector(blob); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("a position of 2^32: %v", err)
	}
}

func FuzzReadVector(f *testing.F) {
	one := dv.NewRoaringPositionBitmap()
	one.Set(7)
	blob, err := dv.SerializeDV(one)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blob)
	f.Fuzz(func(t *testing.T, blob []byte) {
		if set, err := puffin.ReadVector(blob); err == nil && set == nil {
			t.Error("neither a vector nor an error")
		}
	})
}

func TestWriterOfSeveralVectors(t *testing.T) {
	var w puffin.Writer
	type place struct{ offset, size int64 }
	paths := []string{"s3://lake/a.parquet", `s3://lake/ü "quoted"/b.parquet`, "c"}
	places, sets := map[string]place{}, map[string]*roaring.Bitmap{}
	for i, path := range paths {
		set := roaring.New()
		set.AddRange(0, uint64(70_000*i+1))
		set.Add(uint32(1_000_000 + i))
		offset, size, err := w.Add(path, set)
		if err != nil {
			t.Fatal(err)
		}
		places[path], sets[path] = place{offset, size}, set
	}
	if _, _, err := w.Add("empty", roaring.New()); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a vector without positions: %v", err)
	}
	file, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r, err := icebergpuffin.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	blobs := r.Blobs()
	if len(blobs) != len(paths) {
		t.Fatalf("%d blobs", len(blobs))
	}
	for i, b := range blobs {
		path := b.Properties["referenced-data-file"]
		if path != paths[i] || (places[path] != place{b.Offset, b.Length}) {
			t.Errorf("blob %d is of %q at %d, %d", i, path, b.Offset, b.Length)
		}
		theirs, err := dv.DeserializeDV(file[b.Offset:b.Offset+b.Length], int64(sets[path].GetCardinality()))
		if err != nil {
			t.Fatal(err)
		}
		if theirs.Cardinality() != int64(sets[path].GetCardinality()) || !theirs.Contains(uint64(1_000_000+i)) {
			t.Errorf("blob %d has %d positions", i, theirs.Cardinality())
		}
		ours, err := puffin.ReadVector(file[b.Offset : b.Offset+b.Length])
		if err != nil || !ours.Equals(sets[path]) {
			t.Errorf("read back: %v", err)
		}
	}
}
