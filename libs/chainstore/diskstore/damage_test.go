package diskstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/pebblelog"
)

// written is everything that was ever stored under a name: versions by number, or the one blob.
type written struct {
	values map[string][][]byte
	blobs  map[string][]byte
}

// fill writes a life: values that change often, blobs, some of them removed, over several tables and logs of Pebble.
func fill(t *testing.T, s *Store, r *rand.Rand) written {
	t.Helper()
	out := written{map[string][][]byte{}, map[string][]byte{}}
	for step := range 300 {
		b := make([]byte, 1+r.IntN(400))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		if r.IntN(2) == 0 {
			key := fmt.Sprint("head/", r.IntN(8))
			was := out.values[key]
			if _, err := s.CompareAndSet(t.Context(), key, chainstore.Version(len(was)), b); err != nil {
				t.Fatal(err)
			}
			out.values[key] = append(was, b)
		} else {
			name := fmt.Sprint("segment/", step)
			if err := s.PutBlob(t.Context(), name, b); err != nil {
				t.Fatal(err)
			}
			out.blobs[name] = b
		}
		if step%100 == 70 {
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

// check reads everything: what comes is what was once stored under the name, or an error with a kind.
func (w written) check(t *testing.T, s *Store, what string) (older, refused int) {
	t.Helper()
	for key, versions := range w.values {
		b, v, err := s.Get(t.Context(), key)
		switch {
		case err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrUnavailable):
			t.Fatalf("%s: get %s: %v", what, key, err)
		case err != nil:
			refused++
		case v < 1 || int(v) > len(versions) || !bytes.Equal(b, versions[v-1]):
			t.Fatalf("%s: %s at version %d is nothing that was stored", what, key, v)
		case int(v) < len(versions):
			older++
		}
	}
	for name, want := range w.blobs {
		b, err := s.GetBlob(t.Context(), name)
		switch {
		case err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrUnavailable):
			t.Fatalf("%s: get %s: %v", what, name, err)
		case err != nil:
			refused++
		case !bytes.Equal(b, want):
			t.Fatalf("%s: %s is nothing that was stored", what, name)
		}
	}
	names, err := s.ListBlobs(t.Context(), "segment/")
	if err == nil && !slices.IsSorted(names) {
		t.Fatalf("%s: names are not sorted", what)
	}
	for _, n := range names {
		if _, ok := w.blobs[n]; err == nil && !ok {
			t.Fatalf("%s: name %q was never stored", what, n)
		}
	}
	return older, refused
}

// copyTo copies the files of a directory.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFilesAreFoundOut flips bits of every file of a store, and cuts it, as a disk does that rots or tears a
// write. The store does not open, or answers what was once stored under a name, or an error: never other bytes.
func TestDamagedFilesAreFoundOut(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all := fill(t, s, r)
	crashed := filepath.Join(t.TempDir(), "crashed")
	copyTo(t, dir, crashed) // as a kill leaves it: with a log to replay
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	var opens, closed, older, refused int
	for _, from := range []string{dir, crashed} {
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(filepath.Join(from, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for i := range places(len(b)) {
				broken, how := damage(r, b, i)
				what := fmt.Sprintf("seed %d: %s of %d bytes, %s", seed, e.Name(), len(b), how)
				to := filepath.Join(t.TempDir(), "store")
				copyTo(t, from, to)
				if err := os.WriteFile(filepath.Join(to, e.Name()), broken, 0o600); err != nil {
					t.Fatal(err)
				}
				kinds[strings.Trim(e.Name(), "0123456789")]++
				s, err := open(to, &pebble.Options{Logger: pebblelog.New(slog.New(slog.DiscardHandler), "state store")}, 0)
				if err != nil {
					if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnavailable) {
						t.Fatalf("%s: open: %v", what, err)
					}
					closed++
					continue
				}
				o, n := all.check(t, s, what)
				opens, older, refused = opens+1, older+o, refused+n
				if err := s.Close(); err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnavailable) {
					t.Fatalf("%s: close: %v", what, err)
				}
			}
		}
	}
	t.Logf("%d stores opened with %d older and %d refused values, %d did not open; damages by kind of file %v", opens, older, refused, closed, kinds)
	if kinds[".sst"] == 0 || kinds[".log"] == 0 || kinds["MANIFEST-"] == 0 || refused == 0 || closed == 0 {
		t.Errorf("damages %v", kinds)
	}
}

func places(n int) int { return min(n, 12) }

// damage flips a bit of b, or cuts it.
func damage(r *rand.Rand, b []byte, i int) (broken []byte, how string) {
	at := r.IntN(len(b))
	if i%4 == 3 {
		return b[:at], fmt.Sprintf("cut at %d", at)
	}
	broken = bytes.Clone(b)
	bit := byte(1) << r.IntN(8)
	broken[at] ^= bit
	return broken, fmt.Sprintf("bit %d of byte %d", bit, at)
}
