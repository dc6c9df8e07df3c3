package draintest

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"
)

// Writer makes random commits to a branch: upserts, deletes by position, compactions, evolutions.
type Writer struct {
	R      *rand.Rand
	W      *World
	Branch string
	spec   int
	// Kinds limits what Step does; nil = everything.
	Kinds []string
	// ParquetOnly leaves Avro out.
	ParquetOnly bool
	// Log is what was done.
	Log []string
}

// Kinds of steps.
func kinds() []string {
	return []string{"upsert", "upsert", "upsert", "delete", "append", "positions", "compact", "compact-starting-sequence", "spec", "era", "rewrite-deletes"}
}

// Step does one thing.
func (x *Writer) Step() {
	of := x.Kinds
	if of == nil {
		of = kinds()
	}
	k := of[x.R.IntN(len(of))]
	x.Log = append(x.Log, k)
	switch k {
	case "upsert":
		x.upsert(true)
	case "delete":
		x.upsert(false)
	case "append":
		x.W.Write(x.Branch, "append", x.dataFiles())
	case "positions":
		x.positions()
	case "compact":
		x.compact(0)
	case "compact-starting-sequence":
		x.compact(x.W.Table().LastSequenceNumber)
	case "spec":
		x.spec = x.R.IntN(3)
	case "era":
		if x.W.Era == 0 && x.R.IntN(3) == 0 {
			x.W.NextEra()
		}
	case "rewrite-deletes":
		x.rewriteDeletes()
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// row makes a row; small domains make keys meet.
func (x *Writer) row(part any, bucket int64) Row {
	r := x.R
	id := int64(r.IntN(24))
	if bucket >= 0 {
		id = id/2*2 + bucket
	}
	row := Row{ID: id, Part: part}
	set := func(col int, v any) {
		if v != nil {
			row[col] = v
		}
	}
	set(Name, pick[any](r, nil, "a", "b", "c", "", strings.Repeat("long ", 8)+"a", strings.Repeat("long ", 8)+"b"))
	set(Score, pick[any](r, nil, 0.5, -1.25, 3.0, math.NaN(), 1e9))
	set(Amount, pick[any](r, nil, int64(0), int64(-1), int64(127), int64(128), int64(-129), int64(99_999)))
	set(Inner, pick[any](r, nil, int64(0), int64(1), int64(-7)))
	set(Day, pick[any](r, nil, int64(0), int64(-1), int64(20_000)))
	if x.W.Era == 0 {
		set(Extra, pick[any](r, nil, int64(0), int64(1), int64(2)))
	} else {
		set(Note, pick[any](r, nil, "n", NoteDefault))
	}
	return row
}

func (x *Writer) partition() (map[int]any, any, int64) {
	part := pick[any](x.R, nil, "x", "y", "Zü/ri ch=")
	bucket := int64(-1)
	tuple := map[int]any{}
	if x.spec > 0 {
		tuple[1000] = part
	}
	if x.spec > 1 {
		bucket = int64(x.R.IntN(2))
		tuple[1001] = int32(bucket)
	}
	return tuple, part, bucket
}

func (x *Writer) options(tuple map[int]any) Options {
	return Options{Spec: x.spec, Partition: tuple, Avro: x.R.IntN(4) == 0 && !x.ParquetOnly, PerGroup: pick(x.R, 0, 3, 7), NoStats: x.R.IntN(4) == 0}
}

func (x *Writer) dataFiles() []File {
	var out []File
	for range 1 + x.R.IntN(2) {
		tuple, part, bucket := x.partition()
		var rows []Row
		for range 1 + x.R.IntN(20) {
			p := part
			if x.spec == 0 {
				p = pick[any](x.R, nil, "x", "y")
			}
			rows = append(rows, x.row(p, bucket))
		}
		if x.R.IntN(2) == 0 {
			sort.SliceStable(rows, func(i, j int) bool { return less(rows[i][ID], rows[j][ID]) })
		}
		out = append(out, x.W.Data(rows, x.options(tuple)))
	}
	return out
}

// upsert commits equality deletes, with data of the same sequence number or without.
func (x *Writer) upsert(data bool) {
	var files []File
	if data {
		files = x.dataFiles()
	}
	for range 1 + x.R.IntN(2) {
		tuple, part, bucket := x.partition()
		sets := [][]int{{ID}, {Name}, {ID, Day}, {Amount, Score}, {Inner}, {Day, Name}, {Part, ID}}
		if x.W.Era == 0 {
			sets = append(sets, []int{Extra})
		} else {
			sets = append(sets, []int{Note}, []int{Note, ID})
		}
		var rows []Row
		for range 1 + x.R.IntN(4) {
			p := part
			if x.spec == 0 {
				p = pick[any](x.R, nil, "x", "y")
			}
			rows = append(rows, x.row(p, bucket))
		}
		files = append(files, x.W.Equality(pick(x.R, sets...), rows, x.options(tuple)))
	}
	x.W.Write(x.Branch, "overwrite", files)
}

// data answers the live data files of a random partition.
func (x *Writer) data() []Live {
	all := map[string][]Live{}
	for _, f := range x.W.Live(x.Branch) {
		if f.ContentType() == iceberg.EntryContentData {
			k := fmt.Sprint(f.SpecID(), f.Partition()[1000], f.Partition()[1001])
			all[k] = append(all[k], f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	names := make([]string, 0, len(all))
	for k := range all {
		names = append(names, k)
	}
	slices.Sort(names)
	return all[pick(x.R, names...)]
}

func (x *Writer) positions() {
	files := x.data()
	if len(files) == 0 {
		return
	}
	if x.W.Version >= 3 {
		x.vector(pick(x.R, files...))
		return
	}
	files = files[:1+x.R.IntN(len(files))]
	var rows []Position
	for _, f := range files {
		for range 1 + x.R.IntN(3) {
			rows = append(rows, Position{f.FilePath(), int64(x.R.IntN(int(f.Count())))})
		}
	}
	if x.R.IntN(2) == 0 {
		x.R.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	x.W.Write(x.Branch, "delete", []File{x.positionFile(rows, files)})
}

func (x *Writer) positionFile(rows []Position, of []Live) File {
	body, err := PositionParquet(rows)
	if err != nil {
		x.W.tb.Fatal(err)
	}
	f := File{
		Content: iceberg.EntryContentPosDeletes, Format: iceberg.ParquetFile, Path: x.W.Path("-pos.parquet"), Spec: int(of[0].SpecID()),
		Partition: of[0].Partition(), Records: int64(len(rows)), Size: int64(len(body)),
	}
	x.W.Lake.Put(f.Path, body)
	if len(of) == 1 && x.R.IntN(2) == 0 {
		f.Reference = of[0].FilePath()
	}
	if x.R.IntN(3) > 0 {
		lower, upper := of[0].FilePath(), of[0].FilePath()
		for _, o := range of {
			lower, upper = min(lower, o.FilePath()), max(upper, o.FilePath())
		}
		f.Lower, f.Upper = map[int][]byte{2147483546: []byte(lower)}, map[int][]byte{2147483546: []byte(upper)}
	}
	return f
}

// vector adds positions to the vector of a data file.
func (x *Writer) vector(f Live) {
	live := x.W.Live(x.Branch)
	dead := x.W.dead(f, live)
	dead[int64(x.R.IntN(int(f.Count())))] = true
	set := dv.NewRoaringPositionBitmap()
	for pos := range dead {
		set.Set(uint64(pos))
	}
	blob, err := dv.SerializeDV(set)
	if err != nil {
		x.W.tb.Fatal(err)
	}
	body := append([]byte("PFA1"), blob...)
	path := x.W.Path(".puffin")
	x.W.Lake.Put(path, body)
	x.W.Write(x.Branch, "delete", []File{{
		Content: iceberg.EntryContentPosDeletes, Format: iceberg.PuffinFile, Path: path, Spec: int(f.SpecID()), Partition: f.Partition(),
		Records: int64(len(dead)), Size: int64(len(body)), Reference: f.FilePath(), Offset: 4, Bytes: int64(len(blob)),
	}}, vectorsOf(live, f.FilePath())...)
}

// vectorsOf answers what to remove of the vectors of a data file.
func vectorsOf(live []Live, path string) []string {
	var out []string
	for _, d := range live {
		if d.FileFormat() == iceberg.PuffinFile && *d.ReferencedDataFile() == path {
			out = append(out, fmt.Sprintf("%s#%d", d.FilePath(), *d.ContentOffset()))
		}
	}
	return out
}

// compact rewrites some data files of a partition to what is visible of them; seq 0 = a new sequence number.
func (x *Writer) compact(seq int64) {
	files := x.data()
	if len(files) == 0 {
		return
	}
	files = files[:1+x.R.IntN(len(files))]
	live := x.W.Live(x.Branch)
	var rows []Row
	var remove []string
	for _, f := range files {
		remove = append(append(remove, f.FilePath()), vectorsOf(live, f.FilePath())...)
		dead := x.W.dead(f, live)
		for pos, row := range x.W.rowsOf(f.FilePath()) {
			if !dead[int64(pos)] && !x.W.killed(f, row, live) {
				rows = append(rows, x.asNow(row))
			}
		}
	}
	var add []File
	if len(rows) > 0 {
		add = []File{x.W.Data(rows, Options{Spec: int(files[0].SpecID()), Partition: files[0].Partition(), Seq: seq, PerGroup: pick(x.R, 0, 5)})}
	}
	x.W.Write(x.Branch, "replace", add, remove...)
}

// asNow is a row as it is written by the present schema: a dropped column is gone.
func (x *Writer) asNow(r Row) Row {
	out := Row{}
	for id, v := range r {
		out[id] = v
	}
	if x.W.Era > 0 {
		delete(out, Extra)
	}
	return out
}

// rewriteDeletes merges the position deletes of a partition into one file, as rewrite_position_delete_files does.
func (x *Writer) rewriteDeletes() {
	if x.W.Version >= 3 {
		return
	}
	files := x.data()
	if len(files) == 0 {
		return
	}
	live := x.W.Live(x.Branch)
	var rows []Position
	for _, f := range files {
		for pos := range x.W.dead(f, live) {
			rows = append(rows, Position{f.FilePath(), pos})
		}
	}
	if len(rows) == 0 {
		return
	}
	var remove []string
	for _, d := range live {
		if d.ContentType() == iceberg.EntryContentPosDeletes && d.SpecID() == files[0].SpecID() && samePartition(d.Partition(), files[0].Partition()) {
			remove = append(remove, d.FilePath())
		}
	}
	slices.SortFunc(rows, func(a, b Position) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return int(a.Pos - b.Pos)
	})
	x.W.Write(x.Branch, "replace", []File{x.positionFile(rows, files)}, remove...)
}

// Same fails the test if two readings differ.
func Same(tb TB, what string, got, want []string) {
	tb.Helper()
	if slices.Equal(got, want) {
		return
	}
	var b bytes.Buffer
	for _, r := range want {
		if !slices.Contains(got, r) {
			fmt.Fprintf(&b, "missing %s\n", r)
		}
	}
	for _, r := range got {
		if !slices.Contains(want, r) {
			fmt.Fprintf(&b, "too many %s\n", r)
		}
	}
	tb.Fatalf("%s: %d rows, want %d\n%s", what, len(got), len(want), b.String())
}
