package probe_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/libs/probe"
)

func schema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "name", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 3, Name: "day", Type: iceberg.PrimitiveTypes.Date},
	)
}

// The specs: none, by day, by bucket, and one whose only field was dropped.
func specs() []iceberg.PartitionSpec {
	return []iceberg.PartitionSpec{
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}}),
		iceberg.NewPartitionSpecID(2, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1001, Name: "bucket", Transform: iceberg.BucketTransform{NumBuckets: 4}}),
		iceberg.NewPartitionSpecID(3, iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1002, Name: "day_gone", Transform: iceberg.VoidTransform{}}),
	}
}

func long(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

func measure(t *testing.T, table *scantest.Table, cfg probe.Config) *probe.Report {
	t.Helper()
	meta, err := icebergscan.ParseTable(table.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	head, err := meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), table.Lake, meta, head)
	if err != nil {
		t.Fatal(err)
	}
	got, err := probe.Run(t.Context(), meta, scan, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// randomFile makes a data or delete file with bounds that are sometimes missing and keys that are sometimes null.
func randomFile(r *rand.Rand, n, specs int) scantest.File {
	f := scantest.File{Path: fmt.Sprintf("f%05d", n), Spec: r.IntN(specs), Records: 1 + r.Int64N(100)}
	switch f.Spec {
	case 1:
		f.Partition = map[int]any{1000: iceberg.Date(r.IntN(2))}
		if r.IntN(4) == 0 {
			f.Partition[1000] = nil
		}
	case 2:
		f.Partition = map[int]any{1001: int32(r.IntN(2))}
	case 3:
		f.Partition = map[int]any{1002: nil}
	}
	f.Lower, f.Upper, f.Values, f.Nulls = map[int][]byte{}, map[int][]byte{}, map[int]int64{}, map[int]int64{}
	if r.IntN(6) > 0 {
		lo := r.Int64N(200) - 100
		f.Lower[1], f.Upper[1] = long(lo), long(lo+r.Int64N(30))
	}
	f.Values[2] = f.Records
	switch r.IntN(4) {
	case 0: // nothing but nulls: no bounds
		f.Nulls[2] = f.Records
	case 1:
		f.Nulls[2] = 1
		fallthrough
	case 2:
		if f.Nulls[2] == 0 {
			f.Nulls[2] = 0
		}
		a, b := string(rune('a'+r.IntN(26))), string(rune('a'+r.IntN(26)))
		f.Lower[2], f.Upper[2] = []byte(min(a, b)), []byte(max(a, b))
	default: // nothing is stated
		delete(f.Values, 2)
	}
	switch r.IntN(5) {
	case 0, 1:
		f.Content = iceberg.EntryContentEqDeletes
		f.EqualityIDs = [][]int{{1}, {2}, {1, 2}, {2, 1}}[r.IntN(4)]
	case 2:
		if r.IntN(2) == 0 {
			f.Content, f.Lower, f.Upper = iceberg.EntryContentPosDeletes, nil, nil
		}
	}
	return f
}

// pair says what a delete file may do to a data file, from the specification and nothing of the package.
func pair(table *scantest.Table, d, e scantest.File) (plain, pruned bool) {
	unpartitioned := e.Spec == 0 || e.Spec == 3
	if d.Seq >= e.Seq || !unpartitioned && (d.Spec != e.Spec || fmt.Sprint(d.Partition) != fmt.Sprint(e.Partition)) {
		return false, false
	}
	for _, id := range e.EqualityIDs {
		if !keysMeet(d, e, id) {
			return true, false
		}
	}
	return true, true
}

func keysMeet(d, e scantest.File, id int) bool {
	required := id == 1
	hasNull := func(f scantest.File) bool { n, ok := f.Nulls[id]; return !required && (!ok || n > 0) }
	onlyNull := func(f scantest.File) bool {
		n, ok := f.Nulls[id]
		v, okV := f.Values[id]
		return !required && ok && okV && n == v
	}
	noNull := func(f scantest.File) bool { n, ok := f.Nulls[id]; return required || ok && n == 0 }
	if hasNull(d) && hasNull(e) {
		return true
	}
	if onlyNull(d) && noNull(e) || onlyNull(e) && noNull(d) {
		return false
	}
	for _, f := range []scantest.File{d, e} {
		if f.Lower[id] == nil || f.Upper[id] == nil {
			return true
		}
	}
	if id == 1 {
		n := func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
		return n(d.Lower[1]) <= n(e.Upper[1]) && n(e.Lower[1]) <= n(d.Upper[1])
	}
	return string(d.Lower[2]) <= string(e.Upper[2]) && string(e.Lower[2]) <= string(d.Upper[2])
}

// oracle is the dullest sum there is: every delete against every data file.
func oracle(table *scantest.Table) (totals probe.Counts, byPartition map[string]*probe.Counts, byDeletes map[int64]int64) {
	byPartition, byDeletes = map[string]*probe.Counts{}, map[int64]int64{}
	row := func(f scantest.File) *probe.Counts {
		key := fmt.Sprint(f.Spec, f.Partition)
		if f.Content == iceberg.EntryContentEqDeletes && (f.Spec == 0 || f.Spec == 3) {
			key = "global"
		}
		if byPartition[key] == nil {
			byPartition[key] = &probe.Counts{}
		}
		return byPartition[key]
	}
	live := table.Live()
	ownTouched := map[*probe.Counts]map[string][2]int64{} // row -> data file -> keys plain, pruned
	for _, e := range live {
		c := row(e)
		if e.Content != iceberg.EntryContentEqDeletes {
			continue
		}
		c.EqualityDeleteFiles++
		c.EqualityDeleteBytes += 1000
		c.DeleteKeys += e.Records
		var plain, pruned int64
		for _, d := range live {
			if d.Content != iceberg.EntryContentData {
				continue
			}
			p, q := pair(table, d, e)
			if ownTouched[c] == nil {
				ownTouched[c] = map[string][2]int64{}
			}
			k := ownTouched[c][d.Path]
			if p {
				plain++
				k[0] += e.Records
			}
			if q {
				pruned++
				k[1] += e.Records
			}
			ownTouched[c][d.Path] = k
		}
		if plain == 0 {
			c.DanglingDeleteFiles++
		}
		c.Plain.ProbeUnits += plain * e.Records
		c.Pruned.ProbeUnits += pruned * e.Records
		c.Plain.WorstFanout = max(c.Plain.WorstFanout, plain)
		c.Pruned.WorstFanout = max(c.Pruned.WorstFanout, pruned)
	}
	for c, files := range ownTouched {
		for _, k := range files {
			for i, cost := range []*probe.Cost{&c.Plain, &c.Pruned} {
				cost.WorstKeys = max(cost.WorstKeys, k[i])
				if k[i] > 0 {
					cost.DataFilesTouched++
				}
			}
		}
	}
	for _, c := range byPartition {
		totals.EqualityDeleteFiles += c.EqualityDeleteFiles
		totals.EqualityDeleteBytes += c.EqualityDeleteBytes
		totals.DeleteKeys += c.DeleteKeys
		totals.DanglingDeleteFiles += c.DanglingDeleteFiles
		totals.Plain.ProbeUnits += c.Plain.ProbeUnits
		totals.Pruned.ProbeUnits += c.Pruned.ProbeUnits
		totals.Plain.WorstFanout = max(totals.Plain.WorstFanout, c.Plain.WorstFanout)
		totals.Pruned.WorstFanout = max(totals.Pruned.WorstFanout, c.Pruned.WorstFanout)
	}
	for _, f := range live {
		c := row(f)
		switch {
		case f.Content == iceberg.EntryContentPosDeletes:
			c.PositionDeleteFiles++
			c.DeletedPositions += f.Records
			totals.PositionDeleteFiles++
			totals.DeletedPositions += f.Records
		case f.Content == iceberg.EntryContentData:
			c.DataFiles++
			c.DataRecords += f.Records
			totals.DataFiles++
			totals.DataRecords += f.Records
			var sum [2]int64
			var files int64
			for _, e := range live {
				if e.Content != iceberg.EntryContentEqDeletes {
					continue
				}
				p, q := pair(table, f, e)
				if p {
					sum[0] += e.Records
				}
				if q {
					sum[1] += e.Records
					files++
				}
			}
			for i, cost := range []*probe.Cost{&totals.Plain, &totals.Pruned} {
				cost.WorstKeys = max(cost.WorstKeys, sum[i])
				if sum[i] > 0 {
					cost.DataFilesTouched++
				}
			}
			for _, at := range []int64{1, 3, 7} {
				if files >= at {
					byDeletes[at]++
				}
			}
		}
	}
	return totals, byPartition, byDeletes
}

// The streaming figures against the quadratic sum, on random histories, whatever the number of passes.
func TestRunEqualsTheQuadraticSum(t *testing.T) {
	seed := rand.Uint64()
	for round := range 60 {
		r := rand.New(rand.NewPCG(seed, uint64(round)))
		table := scantest.New(t, 2, schema(), specs()...)
		used := 1 + r.IntN(4)
		n := 0
		for range 1 + r.IntN(8) {
			var files []scantest.File
			for range r.IntN(60) {
				files = append(files, randomFile(r, n, used))
				n++
			}
			var removed []string
			for _, f := range table.Live() {
				if r.IntN(20) == 0 {
					removed = append(removed, f.Path)
				}
			}
			table.Commit("overwrite", nil, files, removed...)
		}
		totals, rows, byDeletes := oracle(table)
		for _, held := range []int{0, 1 + r.IntN(30)} {
			got := measure(t, table, probe.Config{MaxDeletes: held, Thresholds: []int64{1, 3, 7}})
			if got.Totals != totals {
				t.Fatalf("seed %d round %d, %d held:\n got %+v\nwant %+v", seed, round, held, got.Totals, totals)
			}
			for _, h := range got.FilesByDeletes {
				if h.Files != byDeletes[h.AtLeast] {
					t.Fatalf("seed %d round %d: %d files with %d deletes, want %d", seed, round, h.Files, h.AtLeast, byDeletes[h.AtLeast])
				}
			}
			compareRows(t, fmt.Sprintf("seed %d round %d, %d held", seed, round, held), got.Partitions, rows)
		}
	}
}

func compareRows(t *testing.T, at string, got []probe.Partition, want map[string]*probe.Counts) {
	t.Helper()
	var a, b []string
	var ownUnits, globalUnits int64
	for _, p := range got {
		a = append(a, fmt.Sprintf("%+v", p.Counts))
		if p.Global {
			ownUnits += p.Plain.ProbeUnits
		}
		globalUnits += p.GlobalUnits
	}
	if len(got) > 1 && ownUnits != globalUnits {
		t.Fatalf("%s: global deletes cost %d, their victims say %d", at, ownUnits, globalUnits)
	}
	merged := len(got) < len(want)
	if merged { // the row of an unpartitioned table
		if len(got) != 1 || len(want) != 2 {
			t.Fatalf("%s: %d rows, want %d", at, len(got), len(want))
		}
		return // its figures are the totals
	}
	for _, c := range want {
		b = append(b, fmt.Sprintf("%+v", *c))
	}
	slices.Sort(a)
	slices.Sort(b)
	if !slices.Equal(a, b) {
		t.Fatalf("%s:\n got %q\nwant %q", at, a, b)
	}
}

func TestNoSnapshotsNoUnits(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()...)
	got := measure(t, table, probe.Config{})
	if got.Totals != (probe.Counts{}) || len(got.Partitions) != 0 {
		t.Errorf("got %+v", got)
	}
}

// Rows written in the commit of their deletes are not touched by them.
func TestSameSequenceNumberIsNotTouched(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()[0])
	table.Commit("append", nil, []scantest.File{{Path: "old", Records: 10}})
	table.Commit("overwrite", nil, []scantest.File{
		{Path: "new", Records: 10},
		{Path: "eq", Records: 7, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}},
	})
	got := measure(t, table, probe.Config{}).Totals.Plain
	if got.ProbeUnits != 7 || got.DataFilesTouched != 1 || got.WorstFanout != 1 {
		t.Errorf("got %+v", got)
	}
}

// A compaction that keeps the old sequence number stays below newer deletes; one that takes its own does not.
func TestCompactionThatKeepsItsSequenceNumber(t *testing.T) {
	table := scantest.New(t, 2, schema(), specs()[0])
	table.Commit("append", nil, []scantest.File{{Path: "a", Records: 10}, {Path: "b", Records: 10}})
	table.Commit("overwrite", nil, []scantest.File{{Path: "eq", Records: 5, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}}})
	table.Commit("replace", nil, []scantest.File{{Path: "c", Records: 20, Seq: 1}}, "a", "b")
	if got := measure(t, table, probe.Config{}).Totals.Plain.ProbeUnits; got != 5 {
		t.Errorf("%d units", got)
	}
	table.Commit("replace", nil, []scantest.File{{Path: "d", Records: 20}}, "c")
	got := measure(t, table, probe.Config{}).Totals
	if got.Plain.ProbeUnits != 0 || got.DanglingDeleteFiles != 1 {
		t.Errorf("got %+v", got)
	}
}

// Many deletes in one partition: whole blocks are decided by their summaries, and the figures stay exact.
func TestBlocksOfManyDeletes(t *testing.T) {
	for name, width := range map[string]int64{"narrow": 3, "half": 60, "wide": 400} {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 7))
		table := scantest.New(t, 2, schema(), specs()[0])
		var want int64
		type span struct{ lo, hi int64 }
		var data []span
		for round := range 8 {
			var files []scantest.File
			var added []span
			for i := range 700 {
				lo := r.Int64N(400)
				s := span{lo, lo + r.Int64N(width)}
				if name == "narrow" { // keys that grow with time
					lo = int64(round)*100 + r.Int64N(50)
					s = span{lo, lo + r.Int64N(width)}
				}
				f := scantest.File{Path: fmt.Sprintf("%d-%d", round, i), Records: 1, Lower: map[int][]byte{1: long(s.lo)}, Upper: map[int][]byte{1: long(s.hi)}}
				if i < 680 {
					f.Content, f.EqualityIDs = iceberg.EntryContentEqDeletes, []int{1}
					for _, d := range data {
						if d.lo <= s.hi && s.lo <= d.hi {
							want++
						}
					}
				} else {
					added = append(added, s)
				}
				files = append(files, f)
			}
			table.Commit("overwrite", nil, files)
			data = append(data, added...)
		}
		if got := measure(t, table, probe.Config{}).Totals.Pruned.ProbeUnits; got != want {
			t.Errorf("%s, seed %d: %d units, want %d", name, seed, got, want)
		}
	}
}
