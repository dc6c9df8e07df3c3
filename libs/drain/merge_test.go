package drain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/fault"
)

func TestManyPositionDeletesOfADataFileAreMerged(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, 2)
		a, b, c := w.Data(ids(0, 10), opts{}), w.Data(ids(10, 20), opts{}), w.Data(ids(20, 30), opts{})
		w.Write("main", "append", files{a, b, c})
		position := func(rows ...draintest.Position) draintest.File {
			body, err := draintest.PositionParquet(rows)
			if err != nil {
				t.Fatal(err)
			}
			f := draintest.File{Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: w.Path("-pos.parquet"), Records: int64(len(rows)), Size: int64(len(body))}
			w.Lake.Put(f.Path, body)
			return f
		}
		for i := range int64(3) {
			w.Write("main", "delete", files{position(draintest.Position{Path: a.Path, Pos: i})})
		}
		w.Write("main", "delete", files{position(draintest.Position{Path: a.Path, Pos: 1}, draintest.Position{Path: b.Path, Pos: 9})})
		w.Write("main", "delete", files{position(draintest.Position{Path: c.Path, Pos: 9})})
		if v == 3 {
			w.Upgrade()
		}
		cfg := config()
		cfg.MergeFrom = 3
		rep := drainedWith(t, w, cfg, 25)
		want := int64(2) // a and b, whose file went along; c has only one
		if v == 3 {
			want = 3
		}
		if rep.DeleteFilesAdded != want || rep.DeleteFilesMerged != want+2 {
			t.Errorf("%+v", rep)
		}
		s, err := w.Table().Head("main")
		if err != nil || s.Operation() != "replace" {
			t.Errorf("operation %s, %v", s.Operation(), err)
		}
		if rep := drainedWith(t, w, cfg, 25); len(rep.Snapshots) != 0 {
			t.Errorf("once more: %+v", rep)
		}
	})
}

// Readers of the target never meet an equality delete.
func TestFromAStagingBranchToATarget(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data(ids(0, 10), opts{})})
		w.Branch("staging", "main")
		cfg := config()
		cfg.Branch, cfg.Target = "staging", "main"
		n := 10
		for i := range int64(3) {
			w.Write("staging", "overwrite", files{w.Data(ids(20+i, 21+i), opts{}), w.Equality([]int{id}, ids(i, i+1), opts{})})
			late := i == 1
			w.Before = func() { // an upsert that gets into the commit of the drain
				if late {
					late = false
					w.Write("staging", "overwrite", files{w.Data(ids(5, 6), opts{}), w.Equality([]int{id}, ids(5, 6), opts{})})
				}
				if w.EqualityDeletes("main") > 0 {
					t.Error("main has an equality delete")
				}
			}
			rep, err := drain.Run(t.Context(), w, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(w.Visible("main")) != n || rep.Forwarded == 0 {
				t.Errorf("round %d: %d rows, %+v", i, len(w.Visible("main")), rep)
			}
			draintest.Same(t, "main", w.Visible("main"), w.Visible("staging"))
		}
		w.Before = nil
		rep, err := drain.Run(t.Context(), w, cfg)
		if err != nil || rep.Forwarded != 0 || len(rep.Snapshots) != 0 {
			t.Errorf("nothing to do: %+v, %v", rep, err)
		}
		// A target with commits of its own is left alone.
		w.Write("main", "append", files{w.Data(ids(50, 51), opts{})})
		w.Write("staging", "delete", files{w.Equality([]int{id}, ids(9, 10), opts{})})
		if _, err := drain.Run(t.Context(), w, cfg); !errors.Is(err, fault.ErrConflict) || !strings.Contains(err.Error(), "have to be made on branch staging") || len(w.Visible("main")) != 11 {
			t.Errorf("a target that went its own way: %v, %d rows", err, len(w.Visible("main")))
		}
	})
}

// A table whose writer has known nothing but the staging branch: its main branch begins without equality deletes.
func TestAMainBranchThatBeginsDrained(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("staging", "overwrite", files{w.Data(ids(0, 10), opts{})})
		w.Write("staging", "overwrite", files{w.Data(ids(3, 4), opts{}), w.Equality([]int{id}, ids(3, 5), opts{})})
		cfg := config()
		cfg.Branch, cfg.Target = "staging", "main"
		stolen := false
		w.Before = func() { // another writer begins it first
			if head, err := w.Table().Head("staging"); err == nil && head.Summary[drain.Mark] != "" && !stolen {
				stolen = true
				w.Write("staging", "append", files{w.Data(ids(20, 21), opts{})})
				w.Branch("main", "staging")
			}
		}
		if _, err := drain.Run(t.Context(), w, cfg); err != nil {
			t.Fatal(err)
		}
		if len(w.Visible("main")) != 10 || !stolen {
			t.Errorf("%d rows", len(w.Visible("main")))
		}
		draintest.Same(t, "main", w.Visible("main"), w.Visible("staging"))
		cfg.Target = "typo"
		if _, err := drain.Run(t.Context(), w, cfg); !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), "main, staging") {
			t.Errorf("a target that is not there: %v", err)
		}
	})
}

func TestAStagingBranchThatIsNeverClean(t *testing.T) {
	w := draintest.New(t, 3)
	w.Write("main", "append", files{w.Data(ids(0, 1000), opts{})})
	w.Branch("staging", "main")
	w.Write("staging", "delete", files{w.Equality([]int{id}, ids(0, 1), opts{})})
	next, armed := int64(1), true
	w.Before = func() { // once in each commit, so that the next try has one delete too many
		if armed = !armed; !armed {
			w.Write("staging", "delete", files{w.Equality([]int{id}, ids(next, next+1), opts{})})
			next++
		}
	}
	cfg := config()
	cfg.Branch, cfg.Target = "staging", "main"
	_, err := drain.Run(t.Context(), w, cfg)
	if !errors.Is(err, fault.ErrUnavailable) || len(w.Visible("main")) != 1000 {
		t.Errorf("%v, %d rows", err, len(w.Visible("main")))
	}
	w.Before = nil
	if _, err := drain.Run(t.Context(), w, cfg); err != nil {
		t.Fatal(err)
	}
	draintest.Same(t, "main", w.Visible("main"), w.Visible("staging"))
}

// Rows keep their ids: data files are not touched, those of version 2 get ids at the first commit of version 3.
func TestRowLineage(t *testing.T) {
	w := draintest.New(t, 2)
	gone := w.Data(ids(100, 107), opts{})
	w.Write("main", "append", files{w.Data(ids(0, 10), opts{}), gone})
	w.Write("main", "delete", nil, gone.Path) // its manifest has an existing entry now
	w.Write("main", "append", files{w.Data(ids(10, 15), opts{})})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 1), opts{})})
	w.Upgrade()
	drained(t, w, 14)
	if next := w.Table().NextRowID; next != 15 {
		t.Errorf("next row id %d", next)
	}
	first := func() map[string]int64 {
		out := map[string]int64{}
		for _, f := range w.Live("main") {
			if r := f.FirstRowID(); f.ContentType() == iceberg.EntryContentData && r != nil {
				out[f.FilePath()] = *r
			}
		}
		return out
	}
	before := first()
	if len(before) != 2 {
		t.Fatalf("row ids %v", before)
	}
	w.Write("main", "append", files{w.Data(ids(20, 25), opts{})})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(10, 21), opts{})})
	with := first()
	drained(t, w, 9+4)
	after := first()
	for path, r := range with {
		if after[path] != r {
			t.Errorf("%s began with row id %d and begins with %d", path, r, after[path])
		}
	}
	if next := w.Table().NextRowID; next != 20 {
		t.Errorf("next row id %d", next)
	}
}
