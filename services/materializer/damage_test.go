package materializer_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"testing"

	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/services/materializer"
)

// cached answers the files of the cache by name.
func (w *world) cached() map[string][]byte {
	w.t.Helper()
	out, err := w.disk.Contents("/cache")
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// put makes a disk that holds the files.
func (w *world) put(files map[string][]byte) {
	w.t.Helper()
	w.disk = fsys.NewMem()
	if err := w.disk.MakeDir("/cache"); err != nil {
		w.t.Fatal(err)
	}
	for name, b := range files {
		err := fsys.WriteFile(w.disk, path.Dir(name), path.Base(name), true, func(f io.Writer) error { _, err := f.Write(b); return err })
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAnyDamageOfTheCacheCostsOnlyTime flips bits of cached row groups, in their head, key, metadata and pages, and cuts
// them, as a torn write does. Every byte that is served is what it was, and what was damaged is encoded again.
func TestAnyDamageOfTheCacheCostsOnlyTime(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	w.fill(1500)
	key := w.publish(span(0, 1500))
	want := w.readAll(key)
	whole := w.cached()
	damages := 0
	for name, b := range whole {
		var places []int
		for at := 0; at < len(b); at += 1 + at/8 + r.IntN(6) { // dense in the head, the key and the metadata
			places = append(places, at)
		}
		places = append(places, len(b)-1)
		for i, at := range places {
			broken, how := bytes.Clone(b), "flipped"
			if i%5 == 4 {
				broken, how = broken[:at], "cut"
			} else {
				broken[at] ^= 1 << r.IntN(8)
			}
			w.put(with(whole, name, broken))
			w.start()
			if got := w.readAll(key); !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %s of %d bytes %s at %d: other bytes are served", seed, name, len(b), how, at)
			}
			if c := w.service.Counters(); c.EncodedRowGroups < 1 || c.CacheFailures < 1 {
				t.Fatalf("seed %d: %s of %d bytes %s at %d: %+v", seed, name, len(b), how, at, c)
			}
			damages++
		}
	}
	t.Logf("%d damages of %d files", damages, len(whole))
	if damages < 50 {
		t.Errorf("only %d damages", damages)
	}
}

func with(files map[string][]byte, name string, b []byte) map[string][]byte {
	out := map[string][]byte{}
	for k, v := range files {
		out[k] = v
	}
	out[name] = b
	return out
}

// TestKillAtEveryChangeOfTheCache ends a materializer at every change of its disk, while it encodes more than its cache
// holds. Of what it was writing the disk keeps nothing, all, or a part, as a crash of the machine leaves files that were
// not synced. The next one serves the same bytes, and its cache keeps to its bound.
func TestKillAtEveryChangeOfTheCache(t *testing.T) {
	const maxBytes = 30_000
	w := newWorld(t, func(c *materializer.Config) { c.Cache.MaxBytes = maxBytes })
	w.fill(8000)
	keys := []string{w.publish(span(0, 1500)), w.publish(span(0, 4096)), w.publish(span(4096, 8000))}
	var want [][]byte
	for _, key := range keys {
		want = append(want, w.readAll(key))
	}
	points, kinds := 0, map[fsys.Op]int{}
	for n := int64(0); ; n++ {
		w.disk = fsys.NewMem()
		var left atomic.Int64
		left.Store(n)
		kinds = map[fsys.Op]int{}
		w.disk.Fail(func(op fsys.Op, _ string) error {
			switch op {
			case fsys.OpCreate, fsys.OpWrite, fsys.OpRename, fsys.OpRemove, fsys.OpSync, fsys.OpSyncDir:
				kinds[op]++
				if left.Add(-1) < 0 {
					return errKilled
				}
			}
			return nil
		})
		w.start()
		for i, key := range keys {
			if got := w.readAll(key); !bytes.Equal(got, want[i]) {
				t.Fatalf("change %d fails: other bytes are served", n)
			}
		}
		w.disk.Fail(nil)
		if left.Load() >= 0 {
			break
		}
		points++
		w.tear(n)
		w.start()
		for i, key := range keys {
			if got := w.readAll(key); !bytes.Equal(got, want[i]) {
				t.Fatalf("killed at change %d: other bytes are served", n)
			}
		}
		if total := size(w.cached()); total > maxBytes {
			t.Fatalf("killed at change %d: a cache of %d bytes", n, total)
		}
	}
	t.Logf("%d crash points: %v", points, kinds)
	if kinds[fsys.OpCreate] == 0 || kinds[fsys.OpWrite] == 0 || kinds[fsys.OpRename] == 0 || kinds[fsys.OpRemove] == 0 {
		t.Errorf("crash points %v", kinds)
	}
}

var errKilled = errors.New("the process was killed")

// tear leaves of the files nothing, all, a part, or zeros at their end.
func (w *world) tear(n int64) {
	w.t.Helper()
	files := w.cached()
	for name, b := range files {
		switch n % 4 {
		case 0:
			delete(files, name)
		case 2:
			files[name] = b[:len(b)*int(n%7)/7]
		case 3:
			files[name] = append(bytes.Clone(b[:len(b)/2]), make([]byte, len(b)-len(b)/2)...)
		}
	}
	w.put(files)
}

func size(files map[string][]byte) (total int64) {
	for _, b := range files {
		total += int64(len(b))
	}
	return total
}
