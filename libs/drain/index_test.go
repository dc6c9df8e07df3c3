package drain_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/drain/draintest"
)

// After a compaction of the whole table the index reads the file that it added, and rows that are looked up.
func TestTheIndexReadsOnlyWhatWasAdded(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		cfg := config()
		cfg.Index = openIndex(&failing{T: t}, t.TempDir())
		defer cfg.Index.Close()
		scattered := func(from int64) []row { // keys that no bounds tell apart
			var out []row
			for i := range int64(4000) {
				out = append(out, row{id: (i*7919+from)%4000*10 + from})
			}
			return out
		}
		var before []draintest.File
		for i := range int64(4) {
			before = append(before, w.Data(scattered(i), opts{PerGroup: 1000}))
		}
		w.Write("main", "append", before)
		w.Write("main", "delete", files{w.Equality([]int{id}, []row{{id: int64(0)}, {id: int64(39_990)}}, opts{})})
		n := 16_000 - 2
		rep := drainedWith(t, w, cfg, n)
		if rep.DataFilesIndexed == 0 || rep.DataFilesIndexed != rep.DataFilesScanned {
			t.Fatalf("%+v", rep)
		}
		all := rep.BytesRead

		w.Write("main", "delete", files{w.Equality([]int{id}, []row{{id: int64(10)}, {id: int64(38_000)}}, opts{})})
		rep = drainedWith(t, w, cfg, n-2)
		if rep.DataFilesIndexed != 0 || rep.BytesRead > all/3 || rep.RowsScanned > 8000 {
			t.Errorf("with the index: %+v, without %d bytes", rep, all)
		}
		// A foreign writer compacts one file; then a delete that may touch all.
		added := w.Data(scattered(2), opts{PerGroup: 1000})
		w.Write("main", "replace", files{added}, before[2].Path)
		w.Lake.Read()
		w.Write("main", "delete", files{w.Equality([]int{id}, []row{{id: int64(12)}, {id: int64(38_002)}}, opts{})})
		rep = drainedWith(t, w, cfg, n-4)
		if rep.DataFilesIndexed != 1 || rep.DataFilesForgotten != 1 {
			t.Errorf("%+v", rep)
		}
		for path, bytes := range w.Lake.Read() {
			size := int64(len(w.Lake.Get(path)))
			if path != added.Path && size > 10_000 && bytes > size/2 {
				t.Errorf("%d of %d bytes of %s were read", bytes, size, path)
			}
		}
	})
}

// A data file gets into the index whole, also the row groups that the first delete cannot touch.
func TestTheIndexHasRowsThatLimitsRuledOut(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		cfg := config()
		cfg.Index = openIndex(&failing{T: t}, t.TempDir())
		defer cfg.Index.Close()
		w.Write("main", "append", files{w.Data(ids(0, 100), opts{PerGroup: 10})})
		for i, key := range []int64{5, 90, 45} {
			w.Write("main", "delete", files{w.Equality([]int{id}, ids(key, key+1), opts{})})
			rep := drainedWith(t, w, cfg, 99-i)
			if want := []int64{100, 10, 10}[i]; rep.RowsScanned != want {
				t.Errorf("delete %d: %d rows were read", key, rep.RowsScanned)
			}
		}
	})
}

// An index that is gone, of another version, or behind, costs reading and no row.
func TestAnIndexThatIsLost(t *testing.T) {
	w := draintest.New(t, 3)
	dir := t.TempDir()
	for i := range int64(4) {
		w.Write("main", "append", files{w.Data(ids(10*i, 10*i+10), opts{})})
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 10*i+1), opts{})})
		cfg := config()
		cfg.Index = openIndex(&failing{T: t}, dir)
		rep := drainedWith(t, w, cfg, 9)
		if err := cfg.Index.Close(); err != nil {
			t.Fatal(err)
		}
		if rep.DataFilesIndexed == 0 {
			t.Errorf("drain %d: %+v", i, rep)
		}
		switch i {
		case 0: // a new process goes on
		case 1:
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		case 2: // what Pebble needs is damaged
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && strings.Contains(d.Name(), "MANIFEST") {
					return os.WriteFile(path, []byte("nothing"), 0o600)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
