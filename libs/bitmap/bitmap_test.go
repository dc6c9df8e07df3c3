package bitmap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/bitmap"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/sealed"
)

func read(b []byte) (*roaring.Bitmap, error) {
	r := sealed.NewReader(b)
	set := bitmap.Read(r)
	return set, r.Done()
}

func written(t testing.TB, set *roaring.Bitmap) []byte {
	t.Helper()
	b, err := bitmap.Append(nil, set)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryKindOfContainer(t *testing.T) {
	sparse, dense, runs := roaring.BitmapOf(1, 7, 1<<16, 1<<20), roaring.New(), roaring.New()
	for v := uint32(0); v < 1<<17; v += 2 {
		dense.Add(v)
	}
	for v := uint32(0); v < 1<<17; v += 20 {
		runs.AddRange(uint64(v), uint64(v)+17)
	}
	runs.AddRange(1<<20-5, 1<<20) // up to the end of a container
	runs.RunOptimize()
	for name, want := range map[string]*roaring.Bitmap{"empty": roaring.New(), "sparse": sparse, "dense": dense, "runs": runs} {
		got, err := read(written(t, want))
		if err != nil || !got.Equals(want) {
			t.Errorf("%s: %v, %d values, want %d", name, err, got.GetCardinality(), want.GetCardinality())
		}
	}
}

// runContainer is the format's bytes of one run container: pairs of start and length less one.
func runContainer(runs ...[2]uint16) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 12347) // the cookie of bitmaps with runs; one container
	b = append(b, 1)                                  // it is a run container
	n := 0
	for _, r := range runs {
		n += int(r[1]) + 1
	}
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(n-1))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(runs)))
	for _, r := range runs {
		b = binary.LittleEndian.AppendUint16(b, r[0])
		b = binary.LittleEndian.AppendUint16(b, r[1])
	}
	return append(binary.AppendUvarint(nil, uint64(len(b))), b...)
}

func TestRunsThatAreNoSetAreRefused(t *testing.T) {
	if got, err := read(runContainer([2]uint16{3, 1}, [2]uint16{9, 0})); err != nil || !got.Equals(roaring.BitmapOf(3, 4, 9)) {
		t.Fatalf("a right one: %v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"unordered":  runContainer([2]uint16{9, 0}, [2]uint16{3, 1}),
		"equal":      runContainer([2]uint16{3, 1}, [2]uint16{3, 1}),
		"overlap":    runContainer([2]uint16{3, 5}, [2]uint16{8, 5}),
		"beyond":     runContainer([2]uint16{65530, 10}),
		"no run":     runContainer(),
		"left over":  append(runContainer([2]uint16{3, 1}), 0),
		"cut off":    runContainer([2]uint16{3, 1})[:12],
		"wrong size": {200, 1},
	} {
		if got, err := read(b); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// FuzzRead: whatever is taken can be used, and is a set of ascending values.
func FuzzRead(f *testing.F) {
	runs := roaring.New()
	runs.AddRange(5, 5000)
	runs.RunOptimize()
	for _, set := range []*roaring.Bitmap{roaring.New(), roaring.BitmapOf(1, 2, 1<<30), runs} {
		f.Add(written(f, set))
	}
	f.Add(runContainer([2]uint16{65530, 10}))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := read(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		values := set.ToArray()
		if other := roaring.BitmapOf(values...); uint64(len(values)) != set.GetCardinality() || !other.Equals(set) {
			t.Fatalf("%d values of %d", len(values), set.GetCardinality())
		}
		if len(values) > 0 && (set.Minimum() != values[0] || set.Maximum() != values[len(values)-1]) {
			t.Fatalf("from %d to %d", set.Minimum(), set.Maximum())
		}
	})
}

func TestWhatIsWrittenFollowsFromTheSet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	set := roaring.New()
	for range 1000 {
		set.Add(r.Uint32N(1 << 18))
	}
	if a, b := written(t, set), written(t, set.Clone()); !bytes.Equal(a, b) {
		t.Error("two writings of one set differ")
	}
}

func BenchmarkReadRuns(b *testing.B) {
	set := roaring.New()
	for v := uint64(0); v < 1<<17; v += 20 {
		set.AddRange(v, v+19)
	}
	set.RunOptimize()
	raw := written(b, set)
	for b.Loop() {
		if _, err := read(raw); err != nil {
			b.Fatal(err)
		}
	}
}
