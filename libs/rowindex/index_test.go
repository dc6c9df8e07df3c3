package rowindex_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rowindex"
)

func open(t testing.TB, dir string) *rowindex.Index {
	t.Helper()
	x, err := rowindex.Open(rowindex.Config{Dir: dir, Table: "t", Branch: "main", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

type found struct {
	path    string
	ordinal uint32
}

func lookup(t *testing.T, x *rowindex.Index, set uint64, keys ...string) []found {
	t.Helper()
	prints := make([]uint64, 0, len(keys))
	for _, k := range keys {
		prints = append(prints, x.Fingerprint([]byte(k)))
	}
	slices.Sort(prints)
	var out []found
	err := x.Lookup(t.Context(), set, prints, func(path string, ordinal uint32) { out = append(out, found{path, ordinal}) })
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b found) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.ordinal, b.ordinal)) })
	return out
}

// TestAgainstAMap: random files come and go, some are left half done, and the index is opened again and again.
func TestAgainstAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	x := open(t, dir)
	defer func() { x.Close() }()
	sets := []string{"1:int", "1:int,2:bytes"}
	model := map[string]map[string][]found{} // set -> key -> rows
	files := map[string][]string{}           // path -> keys in order
	has := map[string]map[string]bool{}      // set -> path
	for _, s := range sets {
		model[s], has[s] = map[string][]found{}, map[string]bool{}
	}
	number := func(s string) uint64 {
		n, err := x.Set(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for step := range 60 {
		switch r.IntN(6) {
		case 0, 1, 2:
			path := fmt.Sprintf("f%d", r.IntN(30))
			if files[path] == nil {
				for range 1 + r.IntN(50) {
					files[path] = append(files[path], fmt.Sprint(r.IntN(100)))
				}
			}
			set := sets[r.IntN(2)]
			if has[set][path] {
				continue
			}
			w := x.NewWriter(pick(r, 3, 20, 100_000))
			if err := w.Begin(path, []uint64{number(set)}); err != nil {
				t.Fatal(err)
			}
			crash := r.IntN(4) == 0
			for i, k := range files[path] {
				if crash && i > len(files[path])/2 {
					break
				}
				if err := w.Add(number(set), x.Fingerprint([]byte(k)), uint32(i)); err != nil {
					t.Fatal(err)
				}
			}
			if crash {
				w.Abandon()
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := w.End(int64(len(files[path]))); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			has[set][path] = true
			for i, k := range files[path] {
				model[set][k] = append(model[set][k], found{path, uint32(i)})
			}
		case 3:
			gone := map[string]bool{}
			for path := range files {
				gone[path] = r.IntN(4) == 0
			}
			if _, err := x.Retain(t.Context(), func(path string) bool { return !gone[path] }); err != nil {
				t.Fatal(err)
			}
			for _, s := range sets {
				for k := range model[s] {
					model[s][k] = slices.DeleteFunc(model[s][k], func(f found) bool { return gone[f.path] })
				}
				for path := range gone {
					if gone[path] {
						delete(has[s], path)
					}
				}
			}
			for path := range gone {
				if gone[path] {
					delete(files, path)
				}
			}
		case 4:
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = open(t, dir)
		default:
		}
		for _, s := range sets {
			for path := range files {
				if x.Has(path, number(s)) != has[s][path] {
					t.Fatalf("step %d: %s of %s", step, path, s)
				}
			}
			a, b := fmt.Sprint(r.IntN(100)), fmt.Sprint(r.IntN(100))
			want := slices.Clone(model[s][a])
			if b != a {
				want = append(want, model[s][b]...)
			}
			slices.SortFunc(want, func(a, b found) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.ordinal, b.ordinal)) })
			if got := lookup(t, x, number(s), a, b); !slices.Equal(got, want) {
				t.Fatalf("step %d: keys %s, %s: got %v, want %v", step, a, b, got, want)
			}
		}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func TestOneProcessHoldsAnIndex(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	_, err := rowindex.Open(rowindex.Config{Dir: dir, Table: "t", Branch: "main", Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a second one: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir).Close()
}

func TestWhatAProcessLeftBehindIsCleared(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	left := filepath.Join(dir, "t", fmt.Sprintf("%x", "main"), "rows-1.tmp")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir).Close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestBytesPerKey: what an index costs on disk, as docs/DRAIN.md has it.
func TestBytesPerKey(t *testing.T) {
	const files, rows = 20, 50_000
	perKey := fill(t, files, rows)
	t.Logf("%.2f bytes per key at %d keys", perKey, files*rows)
	if perKey > 16 {
		t.Errorf("%.2f bytes per key", perKey)
	}
}

func fill(tb testing.TB, files, rows int) float64 {
	tb.Helper()
	x := open(tb, tb.TempDir())
	defer x.Close()
	set, err := x.Set("1:int")
	if err != nil {
		tb.Fatal(err)
	}
	w := x.NewWriter(0)
	key := make([]byte, 16)
	r := rand.New(rand.NewPCG(1, 2))
	for f := range files {
		if err := w.Begin(fmt.Sprintf("s3://lake/db/t/data/%05d.parquet", f), []uint64{set}); err != nil {
			tb.Fatal(err)
		}
		for i := range rows {
			for j := range key {
				key[j] = byte(r.Uint32())
			}
			if err := w.Add(set, x.Fingerprint(key), uint32(i)); err != nil {
				tb.Fatal(err)
			}
		}
		if err := w.End(int64(rows)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := x.Compact(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return float64(x.DiskBytes()) / float64(files*rows)
}

// BenchmarkFill10M writes ten million keys of a hundred data files: bytes per key is the figure that counts.
func BenchmarkFill10M(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(fill(b, 100, 100_000), "B/key")
	}
}
