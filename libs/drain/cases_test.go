package drain_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/fault"
)

// Short names for the tables below.
type (
	row   = draintest.Row
	files = []draintest.File
	opts  = draintest.Options
)

const (
	id, name, score, amount = draintest.ID, draintest.Name, draintest.Score, draintest.Amount
	inner, day, part, note  = draintest.Inner, draintest.Day, draintest.Part, draintest.Note
	extra                   = draintest.Extra
)

func ids(from, to int64) []row {
	var out []row
	for i := from; i < to; i++ {
		out = append(out, row{id: i})
	}
	return out
}

// drained drains and checks that n rows are left, that no row changed and no equality delete is left.
func drained(t *testing.T, w *draintest.World, n int) *drain.Report {
	t.Helper()
	return drainedWith(t, w, config(), n)
}

func drainedWith(t *testing.T, w *draintest.World, cfg drain.Config, n int) *drain.Report {
	t.Helper()
	want := w.Visible("main")
	if len(want) != n {
		t.Fatalf("the case is wrong: %d rows visible, want %d", len(want), n)
	}
	rep, err := drain.Run(t.Context(), w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	draintest.Same(t, "after the drain", w.Visible("main"), want)
	if n := w.EqualityDeletes("main"); n != 0 {
		t.Fatalf("%d equality deletes left", n)
	}
	return rep
}

func versions(t *testing.T, run func(t *testing.T, version int)) {
	t.Helper()
	for _, v := range []int{2, 3} {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { run(t, v) })
	}
}

func TestDeletesInRowGroupsThatArePruned(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data(ids(0, 100), opts{PerGroup: 10})})
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(42, 44), opts{})})
		rep := drained(t, w, 98)
		if rep.RowsScanned != 10 || rep.Positions != 2 {
			t.Errorf("scanned %d rows for %d positions", rep.RowsScanned, rep.Positions)
		}
	})
}

func TestUnsortedAndSharedPositionDeletes(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, 2)
		a, b := w.Data(ids(0, 10), opts{}), w.Data(ids(10, 20), opts{})
		w.Write("main", "append", files{a, b})
		body, err := draintest.PositionParquet([]draintest.Position{{Path: b.Path, Pos: 3}, {Path: a.Path, Pos: 9}, {Path: a.Path, Pos: 1}, {Path: b.Path, Pos: 3}})
		if err != nil {
			t.Fatal(err)
		}
		shared := draintest.File{Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: w.Path("-pos.parquet"), Records: 4, Size: int64(len(body))}
		w.Lake.Put(shared.Path, body)
		w.Write("main", "delete", files{shared, w.Equality([]int{id}, append(ids(9, 11), ids(0, 1)...), opts{})})
		if v == 3 {
			w.Upgrade() // position deletes are left over in version 3
		}
		drained(t, w, 20-3-2)
		for _, f := range w.Live("main") {
			if f.ContentType() == iceberg.EntryContentPosDeletes && (f.FileFormat() == iceberg.PuffinFile) != (v == 3) && f.FilePath() != shared.Path {
				t.Errorf("%s is a %s file", f.FilePath(), f.FileFormat())
			}
		}
	})
}

func TestOneVectorForADataFile(t *testing.T) {
	w := draintest.New(t, 3)
	a, b := w.Data(ids(0, 10), opts{}), w.Data(ids(10, 20), opts{})
	w.Write("main", "append", files{a, b})
	for i := range int64(4) { // each drain meets the vectors of the one before, two in one Puffin file
		w.Write("main", "delete", files{w.Equality([]int{id}, []row{{id: i}, {id: 10 + i}}, opts{})})
		rep := drained(t, w, 20-2*(int(i)+1))
		if want := min(2, 2*i); rep.DeleteFilesMerged != want || rep.DeleteFilesAdded != 2 {
			t.Errorf("drain %d merged %d, added %d", i, rep.DeleteFilesMerged, rep.DeleteFilesAdded)
		}
	}
	w.Write("main", "delete", files{w.Equality([]int{id}, []row{{id: 3}}, opts{})})
	if rep := drained(t, w, 12); rep.DeleteFilesAdded != 0 || rep.Positions != 1 {
		t.Errorf("a row that is deleted already: %+v", rep)
	}
}

func TestSeveralVectorsForADataFileAreRefused(t *testing.T) {
	w := draintest.New(t, 3)
	a := w.Data(ids(0, 10), opts{})
	w.Write("main", "append", files{a})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(1, 2), opts{})})
	drained(t, w, 9)
	vector := w.Live("main")[0]
	for _, f := range w.Live("main") {
		if f.FileFormat() == iceberg.PuffinFile {
			vector = f
		}
	}
	again := draintest.File{
		Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Path: vector.FilePath() + "2", Reference: a.Path,
		Records: vector.Count(), Size: vector.FileSizeBytes(), Offset: *vector.ContentOffset(), Bytes: *vector.ContentSizeInBytes(),
	}
	w.Lake.Put(again.Path, w.Lake.Get(vector.FilePath()))
	w.Write("main", "delete", files{again, w.Equality([]int{id}, ids(2, 3), opts{})})
	_, err := drain.Run(t.Context(), w, config())
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), a.Path) {
		t.Errorf("got %v", err)
	}
}

func TestNullKeys(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		rows := []row{{id: int64(1)}, {id: int64(2), name: "a"}, {id: int64(3), inner: int64(0)}, {id: int64(4), name: "a", inner: int64(0)}}
		w.Write("main", "append", files{w.Data(rows, opts{}), w.Data(rows, opts{Avro: true})})
		w.Write("main", "delete", files{w.Equality([]int{name, inner}, []row{{id: int64(9)}}, opts{})}) // null, null
		drained(t, w, 6)
		w.Write("main", "delete", files{w.Equality([]int{inner, name}, []row{{id: int64(9), inner: int64(0)}}, opts{Avro: true})})
		drained(t, w, 4)
	})
}

func TestRowsOfTheSameSequenceNumberStay(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data(ids(0, 3), opts{})})
		w.Write("main", "overwrite", files{w.Data(ids(0, 3), opts{}), w.Equality([]int{id}, ids(0, 3), opts{})})
		if rep := drained(t, w, 3); rep.DataFilesScanned != 1 {
			t.Errorf("scanned %d data files", rep.DataFilesScanned)
		}
	})
}

// As Flink's upsert writer does: the first version of a key in a commit goes by position, older ones by equality.
func TestTwoVersionsOfAKeyInOneCommit(t *testing.T) {
	w := draintest.New(t, 2)
	w.Write("main", "append", files{w.Data([]row{{id: int64(1), name: "old"}, {id: int64(2), name: "other"}}, opts{})})
	data := w.Data([]row{{id: int64(1), name: "first"}, {id: int64(1), name: "second"}}, opts{})
	body, err := draintest.PositionParquet([]draintest.Position{{Path: data.Path, Pos: 0}})
	if err != nil {
		t.Fatal(err)
	}
	pos := draintest.File{Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: w.Path("-pos.parquet"), Records: 1, Size: int64(len(body))}
	w.Lake.Put(pos.Path, body)
	w.Write("main", "overwrite", files{data, pos, w.Equality([]int{id}, ids(1, 2), opts{})})
	drained(t, w, 2)
	if got := w.Visible("main"); !strings.Contains(got[0], "second") {
		t.Errorf("got %v", got)
	}
	w.Upgrade()
	w.Write("main", "delete", files{w.Equality([]int{name}, []row{{id: int64(0), name: "second"}}, opts{})})
	drained(t, w, 1)
}

func TestPartitionEvolutionAndGlobalDeletes(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		x := opts{Spec: 1, Partition: map[int]any{1000: "x"}}
		y := opts{Spec: 1, Partition: map[int]any{1000: "y"}}
		null := opts{Spec: 1, Partition: map[int]any{1000: nil}}
		bucket := opts{Spec: 2, Partition: map[int]any{1000: "x", 1001: int32(1)}}
		rows := func(p any) []row {
			out := []row{{id: int64(1)}, {id: int64(2)}, {id: int64(3)}}
			for _, r := range out {
				if p != nil {
					r[part] = p
				}
			}
			return out
		}
		w.Write("main", "append", files{w.Data(rows(nil), opts{}), w.Data(rows("x"), x), w.Data(rows("y"), y), w.Data(rows(nil), null), w.Data(rows("x"), bucket)})
		// Of one partition, of the null partition, of one spec, and of all.
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(1, 2), x)})
		drained(t, w, 14)
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(2, 3), null)})
		drained(t, w, 13)
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(1, 2), bucket)})
		drained(t, w, 12)
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(3, 4), opts{})})
		rep := drained(t, w, 7)
		if rep.DataFilesScanned != 5 {
			t.Errorf("a global delete scanned %d data files", rep.DataFilesScanned)
		}
		// By a partition column that comes from the tuple.
		w.Write("main", "delete", files{w.Equality([]int{part, id}, []row{{id: int64(2), part: "y"}}, opts{})})
		drained(t, w, 6)
	})
}

// As in tables that came from Hive: an identity partition column is in the tuple and not in the file.
func TestPartitionColumnsThatAreNotInTheFiles(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		for _, p := range []any{"x", nil} {
			rows := ids(0, 4)
			body, err := draintest.Parquet(0, []int{id, name}, rows, 100)
			if err != nil {
				t.Fatal(err)
			}
			f := w.Data(rows, opts{Spec: 1, Partition: map[int]any{1000: p}, NoStats: true})
			f.Size = int64(len(body))
			w.Lake.Put(f.Path, body)
			for _, r := range rows {
				if p != nil {
					r[part] = p
				}
			}
			w.Write("main", "append", files{f})
		}
		w.Write("main", "delete", files{w.Equality([]int{part, id}, []row{{id: int64(1), part: "x"}, {id: int64(2)}}, opts{})})
		drained(t, w, 6)
	})
}

func TestDroppedRenamedAndAddedKeyColumns(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data([]row{{id: int64(1), name: "a", extra: int64(7)}, {id: int64(2), name: "b", extra: int64(8)}}, opts{})})
		w.Write("main", "delete", files{w.Equality([]int{extra}, []row{{id: int64(0), extra: int64(7)}}, opts{})})
		w.NextEra()
		w.Write("main", "append", files{w.Data([]row{{id: int64(3), name: "b", note: "n"}, {id: int64(4)}}, opts{})})
		drained(t, w, 3)
		w.Write("main", "delete", files{w.Equality([]int{name}, []row{{id: int64(0), name: "b"}}, opts{})})
		drained(t, w, 1)
	})
}

// A column that older files lack has its initial default in them in version 3, and null in 2.
func TestKeyColumnsThatWereAddedLater(t *testing.T) {
	for _, avro := range []bool{false, true} {
		versions(t, func(t *testing.T, v int) {
			w := draintest.New(t, v)
			w.Write("main", "append", files{w.Data(ids(0, 3), opts{Avro: avro})})
			w.NextEra()
			w.Write("main", "append", files{w.Data([]row{{id: int64(5), note: draintest.NoteDefault}, {id: int64(6)}, {id: int64(7), note: "n"}}, opts{Avro: avro})})
			w.Write("main", "delete", files{w.Equality([]int{note}, []row{{id: int64(0), note: draintest.NoteDefault}}, opts{})})
			left := 5
			if v == 3 {
				left = 2
			}
			drained(t, w, left)
			w.Write("main", "delete", files{w.Equality([]int{note}, []row{{id: int64(0)}}, opts{})})
			drained(t, w, 1)
		})
	}
}

// NaN is in no bounds, and equals NaN.
func TestNaNBesideBounds(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data([]row{{id: int64(1), score: math.NaN()}, {id: int64(2), score: 9.0}}, opts{})})
		w.Write("main", "delete", files{w.Equality([]int{score}, []row{{id: int64(0), score: math.NaN()}, {id: int64(0), score: 0.5}}, opts{})})
		drained(t, w, 1)
	})
}

func TestPromotedTypes(t *testing.T) {
	for _, avro := range []bool{false, true} {
		versions(t, func(t *testing.T, v int) {
			w := draintest.New(t, v)
			old := []row{
				{id: int64(1), score: 0.5, amount: int64(-129), inner: int64(-7)},
				{id: int64(2), score: math.NaN(), amount: int64(127), inner: int64(3)},
				{id: int64(3), day: int64(-1)},
			}
			w.Write("main", "append", files{w.Data(old, opts{Avro: avro})})
			w.NextEra()
			w.Write("main", "append", files{w.Data(old, opts{Avro: !avro})})
			n := 6
			for _, d := range []struct {
				keys []int
				row  row
			}{
				{[]int{score, id}, row{id: int64(1), score: 0.5}},
				{[]int{score}, row{id: int64(0), score: math.NaN()}},
				{[]int{day}, row{id: int64(0), day: int64(-1)}},
			} {
				w.Write("main", "delete", files{w.Equality(d.keys, []row{d.row}, opts{Avro: avro})})
				n -= 2
				drained(t, w, n)
			}
			w.Write("main", "append", files{w.Data(old, opts{Avro: !avro})})
			w.Write("main", "delete", files{w.Equality([]int{amount, inner}, []row{{id: int64(0), amount: int64(-129), inner: int64(-7)}}, opts{Avro: avro})})
			drained(t, w, 2)
		})
	}
}

func TestORCIsRefusedByName(t *testing.T) {
	world := func(of iceberg.ManifestEntryContent) (*draintest.World, string) {
		w := draintest.New(t, 2)
		data, deletes := w.Data(ids(0, 3), opts{}), w.Equality([]int{id}, ids(1, 2), opts{})
		orc := &data
		if of == iceberg.EntryContentEqDeletes {
			orc = &deletes
		}
		orc.Format = iceberg.OrcFile
		w.Write("main", "append", files{data})
		w.Write("main", "delete", files{deletes})
		return w, orc.Path
	}
	for of, advice := range map[iceberg.ManifestEntryContent]string{
		iceberg.EntryContentData:      "rewrite it with an engine first",
		iceberg.EntryContentEqDeletes: "have an engine rewrite the data files",
	} {
		w, orc := world(of)
		_, err := drain.Run(t.Context(), w, config())
		if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), orc) || !strings.Contains(err.Error(), advice) || w.Commits != 0 {
			t.Errorf("%s: got %v", of, err)
		}
		p, err := drain.Plan(t.Context(), w, config())
		if err != nil || len(p.Refused) != 1 || !strings.Contains(p.Refused[0], orc) || !strings.Contains(p.Refused[0], advice) {
			t.Errorf("%s: plan %+v, %v", of, p, err)
		}
	}
	// One that no delete touches is in nobody's way.
	w := draintest.New(t, 2)
	orc := w.Data(ids(0, 3), opts{})
	orc.Format = iceberg.OrcFile
	w.Write("main", "append", files{orc, w.Data(ids(10, 13), opts{})})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(11, 12), opts{})})
	drained(t, w, 5)
}

func TestDeletesLargerThanMemory(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		w.Write("main", "append", files{w.Data(ids(0, 3000), opts{}), w.Data(ids(3000, 4000), opts{})})
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 2000), opts{}), w.Equality([]int{id}, ids(2500, 3500), opts{})})
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 10), opts{})})
		cfg := config()
		cfg.Memory = 6000 // some hundred keys at once
		rep := drainedWith(t, w, cfg, 1000)
		if len(rep.Snapshots) < 2 || rep.DataFilesScanned < 20 {
			t.Errorf("%d commits, %d scans", len(rep.Snapshots), rep.DataFilesScanned)
		}
	})
}

func TestABranchIsDrainedAndOthersAreNot(t *testing.T) {
	w := draintest.New(t, 3)
	w.Write("main", "append", files{w.Data(ids(0, 3), opts{})})
	w.Branch("audit", "main")
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 1), opts{})})
	w.Write("audit", "delete", files{w.Equality([]int{id}, ids(1, 3), opts{})})
	cfg := config()
	cfg.Branch = "audit"
	if _, err := drain.Run(t.Context(), w, cfg); err != nil {
		t.Fatal(err)
	}
	if w.EqualityDeletes("main") != 1 || w.EqualityDeletes("audit") != 0 || len(w.Visible("audit")) != 1 || len(w.Visible("main")) != 2 {
		t.Errorf("main %v, audit %v", w.Visible("main"), w.Visible("audit"))
	}
	cfg.Branch = "nothing"
	if _, err := drain.Run(t.Context(), w, cfg); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A compaction that keeps sequence numbers and was begun before a delete brings rows that the delete must still hit.
func TestACompactionThatKeepsSequenceNumbers(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		w := draintest.New(t, v)
		a := w.Data(ids(0, 10), opts{})
		w.Write("main", "append", files{a})
		w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 2), opts{})})
		w.Before = func() {
			w.Before = nil
			w.Write("main", "replace", files{w.Data(ids(0, 10), opts{Seq: 1})}, a.Path)
		}
		rep := drained(t, w, 8)
		if rep.Conflicts != 1 || rep.Replans != 0 || rep.DataFilesScanned != 2 {
			t.Errorf("%+v", rep)
		}
	})
}

// Position deletes of a lower sequence number than the data do not apply, and do not begin to by being merged.
func TestPositionDeletesOlderThanTheirData(t *testing.T) {
	versions(t, func(t *testing.T, v int) {
		for _, alone := range []bool{true, false} {
			w := draintest.New(t, 2)
			w.Write("main", "append", files{w.Data(ids(100, 110), opts{})})
			a := w.Data(ids(0, 10), opts{})
			w.Write("main", "append", files{a})
			body, err := draintest.PositionParquet([]draintest.Position{{Path: a.Path, Pos: 5}})
			if err != nil {
				t.Fatal(err)
			}
			old := draintest.File{Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: w.Path("-pos.parquet"), Records: 1, Size: int64(len(body)), Seq: 1}
			if alone {
				old.Lower, old.Upper = map[int][]byte{2147483546: []byte(a.Path)}, map[int][]byte{2147483546: []byte(a.Path)}
			}
			w.Lake.Put(old.Path, body)
			w.Write("main", "delete", files{old, w.Equality([]int{id}, ids(0, 1), opts{})})
			if v == 3 {
				w.Upgrade()
			}
			before := w.Visible("main")
			drained(t, w, 19)
			cfg := config()
			cfg.MergeFrom = 2
			w.Write("main", "append", nil)
			drainedWith(t, w, cfg, 19)
			draintest.Same(t, "after both", w.Visible("main"), before)
		}
	})
}

// Position deletes beside a vector are ignored by readers, and are not taken into it by a merge.
func TestPositionDeletesBesideAVector(t *testing.T) {
	w := draintest.New(t, 3)
	a := w.Data(ids(0, 10), opts{})
	w.Write("main", "append", files{a})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 1), opts{})})
	drained(t, w, 9)
	body, err := draintest.PositionParquet([]draintest.Position{{Path: a.Path, Pos: 5}})
	if err != nil {
		t.Fatal(err)
	}
	late := draintest.File{Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: w.Path("-pos.parquet"), Records: 1, Size: int64(len(body))}
	w.Lake.Put(late.Path, body)
	w.Write("main", "delete", files{late})
	cfg := config()
	cfg.MergeFrom = 2
	if rep := drainedWith(t, w, cfg, 9); rep.DeleteFilesMerged != 1 || rep.DeleteFilesAdded != 0 {
		t.Errorf("%+v", rep)
	}
}

// Deletes that went with a rollback must not leave a trace.
func TestADeleteThatIsRolledBack(t *testing.T) {
	w := draintest.New(t, 2)
	w.Write("main", "append", files{w.Data(ids(0, 10), opts{})})
	w.Branch("before", "main")
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 2), opts{})})
	w.Before = func() {
		w.Before = nil
		w.Branch("main", "before")
	}
	rep, err := drain.Run(t.Context(), w, config())
	if err != nil || rep.Replans != 1 || len(w.Visible("main")) != 10 || len(rep.Snapshots) != 0 {
		t.Errorf("%d rows, %+v, %v", len(w.Visible("main")), rep, err)
	}
	if o := w.Orphans(); len(o) > 0 {
		t.Errorf("orphans %v", o)
	}
}

func TestTheSnapshotSaysWhatItDid(t *testing.T) {
	w := draintest.New(t, 3)
	w.Write("main", "append", files{w.Data(ids(0, 10), opts{})})
	w.Write("main", "delete", files{w.Equality([]int{id}, ids(0, 2), opts{})})
	drained(t, w, 8)
	s, err := w.Table().Head("main")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, v := range s.Summary {
		if !strings.HasSuffix(k, "-size") {
			got = append(got, k+"="+v)
		}
	}
	slices.Sort(got)
	want := []string{
		"added-delete-files=1", "added-dvs=1", "added-position-deletes=2", "changed-partition-count=1", "frazil-drain=1", "operation=overwrite",
		"removed-delete-files=1", "removed-equality-delete-files=1", "removed-equality-deletes=2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
