package draintest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table/dv"
	"github.com/parquet-go/parquet-go"
)

// Visible answers the rows that a reader sees on a branch, each as text, sorted: the dullest reading there is.
func (w *World) Visible(branch string) []string {
	w.tb.Helper()
	live := w.Live(branch)
	var out []string
	for _, f := range live {
		if f.ContentType() != iceberg.EntryContentData {
			continue
		}
		dead := w.dead(f, live)
		for pos, row := range w.rowsOf(f.FilePath()) {
			if !dead[int64(pos)] && !w.killed(f, row, live) {
				out = append(out, text(row))
			}
		}
	}
	sort.Strings(out)
	return out
}

func (w *World) rowsOf(path string) []Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows, ok := w.Rows[path]
	if !ok {
		w.tb.Fatalf("%s was not written here", path)
	}
	return rows
}

func text(r Row) string {
	var b strings.Builder
	for id := ID; id <= Extra; id++ {
		fmt.Fprintf(&b, "%v|", r[id])
	}
	return b.String()
}

// killed reports whether an equality delete hits the row.
func (w *World) killed(f Live, row Row, live []Live) bool {
	for _, d := range live {
		if d.ContentType() != iceberg.EntryContentEqDeletes || d.Seq <= f.Seq {
			continue
		}
		if d.SpecID() != 0 && (d.SpecID() != f.SpecID() || !samePartition(d.Partition(), f.Partition())) {
			continue
		}
		for _, key := range w.rowsOf(d.FilePath()) {
			if sameKey(row, key, d.EqualityFieldIDs()) {
				return true
			}
		}
	}
	return false
}

func samePartition(a, b map[int]any) bool {
	for id := range a {
		if fmt.Sprintf("%T%v", a[id], a[id]) != fmt.Sprintf("%T%v", b[id], b[id]) {
			return false
		}
	}
	return len(a) == len(b)
}

func sameKey(a, b Row, ids []int) bool {
	for _, id := range ids {
		x, y := a[id], b[id]
		if f, ok := x.(float64); ok && math.IsNaN(f) {
			if g, ok := y.(float64); ok && math.IsNaN(g) {
				continue
			}
			return false
		}
		if x != y {
			return false
		}
	}
	return true
}

// dead answers the positions that are deleted by position. It fails the test on what readers refuse.
func (w *World) dead(f Live, live []Live) map[int64]bool {
	out := map[int64]bool{}
	vectors := 0
	for _, d := range live {
		if d.ContentType() != iceberg.EntryContentPosDeletes || d.FileFormat() != iceberg.PuffinFile {
			continue
		}
		if ref := d.ReferencedDataFile(); ref == nil || *ref != f.FilePath() {
			continue
		}
		if vectors++; vectors > 1 {
			w.tb.Fatalf("%s has several vectors", f.FilePath())
		}
		if d.Seq < f.Seq {
			w.tb.Fatalf("%s has a vector of a lower sequence number", f.FilePath())
		}
		if d.SpecID() != f.SpecID() || !samePartition(d.Partition(), f.Partition()) {
			w.tb.Fatalf("%s has a vector in another partition", f.FilePath())
		}
		body := w.Lake.Get(d.FilePath())
		set, err := dv.DeserializeDV(body[*d.ContentOffset():*d.ContentOffset()+*d.ContentSizeInBytes()], d.Count())
		if err != nil {
			w.tb.Fatalf("%s: %v", d.FilePath(), err)
		}
		for pos := range set.Positions() {
			out[int64(pos)] = true
		}
	}
	if vectors > 0 {
		return out // position deletes are ignored beside a vector
	}
	for _, d := range live {
		if d.ContentType() == iceberg.EntryContentPosDeletes && d.FileFormat() == iceberg.ParquetFile && d.Seq >= f.Seq &&
			d.SpecID() == f.SpecID() && samePartition(d.Partition(), f.Partition()) && w.mayBeAbout(d, f) {
			w.positions(d, f.FilePath(), out)
		}
	}
	return out
}

// mayBeAbout goes by reference and bounds as readers do.
func (w *World) mayBeAbout(d, f Live) bool {
	if ref := d.ReferencedDataFile(); ref != nil {
		return *ref == f.FilePath()
	}
	lower, upper := d.LowerBoundValues()[2147483546], d.UpperBoundValues()[2147483546]
	return lower == nil || upper == nil || string(lower) <= f.FilePath() && f.FilePath() <= string(upper)
}

func (w *World) positions(d Live, path string, out map[int64]bool) {
	body := w.Lake.Get(d.FilePath())
	if int64(len(body)) != d.FileSizeBytes() {
		w.tb.Fatalf("%s has %d bytes and states %d", d.FilePath(), len(body), d.FileSizeBytes())
	}
	r := parquet.NewReader(bytes.NewReader(body))
	last := Position{Pos: -1}
	for {
		rows := make([]parquet.Row, 64)
		n, err := r.ReadRows(rows)
		for _, row := range rows[:n] {
			p := Position{string(row[0].ByteArray()), row[1].Int64()}
			if strings.HasSuffix(d.FilePath(), "-deletes.parquet") && (p.Path < last.Path || p.Path == last.Path && p.Pos <= last.Pos) {
				w.tb.Fatalf("%s is not sorted", d.FilePath())
			}
			if last = p; p.Path == path {
				out[p.Pos] = true
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.tb.Fatal(err)
		}
	}
}

// EqualityDeletes answers how many equality deletes a branch has.
func (w *World) EqualityDeletes(branch string) int {
	n := 0
	for _, f := range w.Live(branch) {
		if f.ContentType() == iceberg.EntryContentEqDeletes {
			n++
		}
	}
	return n
}

// Orphans answers objects under data/ that no snapshot names and no writer made.
func (w *World) Orphans() []string {
	known := map[string]bool{}
	for path := range w.Rows {
		known[path] = true
	}
	for _, s := range w.Table().Snapshots {
		list, err := iceberg.ReadManifestList(bytes.NewReader(w.Lake.Get(s.ManifestList)))
		if err != nil {
			w.tb.Fatal(err)
		}
		known[s.ManifestList] = true
		for _, m := range list {
			known[m.FilePath()] = true
			entries, err := iceberg.ReadManifest(m, bytes.NewReader(w.Lake.Get(m.FilePath())), false)
			if err != nil {
				w.tb.Fatal(err)
			}
			for _, e := range entries {
				known[e.DataFile().FilePath()] = true
			}
		}
	}
	var out []string
	for path := range w.Lake.Objects() {
		if !known[path] && !strings.HasSuffix(path, ".json") && !strings.Contains(path, "/f0") {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}
