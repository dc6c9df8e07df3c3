package probe

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
)

// The picture of docs/PROBE.md: a day of upserts every ten minutes, more of them by day, with a compaction at 08:00
// and 16:00. The tool measures every half hour and draws its own history.
func TestTheChartOfTheDocuments(t *testing.T) {
	dir := t.TempDir()
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true})
	table := scantest.New(t, 2, schema, iceberg.NewPartitionSpecID(0))
	table.Location = "file://" + dir + "/orders"
	r := rand.New(rand.NewPCG(2026, 11))
	at := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	p := prober{now: func() time.Time { return at }}
	next := int64(0)
	upsert := func(n int) {
		keys := 200 + 40*int64(max(0, 9-abs(at.Hour()-13))) + r.Int64N(100)
		span := func(f scantest.File, lo, hi int64) scantest.File {
			f.Lower, f.Upper = map[int][]byte{1: long(lo)}, map[int][]byte{1: long(hi)}
			return f
		}
		// Most updates are of recent rows: old data files lie outside the bounds.
		table.Commit("overwrite", map[string]string{"added-equality-deletes": fmt.Sprint(keys)}, []scantest.File{
			span(scantest.File{Path: fmt.Sprintf("%s/d%04d", table.Location, n), Records: 2 * keys}, max(0, next-2000), next+keys),
			span(scantest.File{Path: fmt.Sprintf("%s/e%04d", table.Location, n), Records: keys, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}}, max(0, next-2000), next),
		})
		next += keys
	}
	compact := func(n int) {
		var gone []string
		var keys, rows int64
		for _, f := range table.Live() {
			gone = append(gone, f.Path)
			if f.Content == iceberg.EntryContentEqDeletes {
				keys += f.Records
				continue
			}
			rows += f.Records
		}
		table.Commit("replace", map[string]string{"removed-equality-deletes": fmt.Sprint(keys)},
			[]scantest.File{{Path: fmt.Sprintf("%s/c%04d", table.Location, n), Records: rows, Lower: map[int][]byte{1: long(0)}, Upper: map[int][]byte{1: long(next)}}}, gone...)
	}
	state, chart := filepath.Join(dir, "history"), filepath.Join(dir, "chart.svg")
	for n := range 24*6 + 1 {
		if at.Minute() == 0 && (at.Hour() == 8 || at.Hour() == 16) {
			compact(n)
		}
		upsert(n)
		if at.Minute()%30 == 0 {
			table.Metadata()
			table.Lake.WriteFiles(t)
			if _, err := probeIt(t, p, "shop.orders", "--metadata", table.MetadataLocation(), "--state", state, "--chart", chart); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(10 * time.Minute)
	}
	got, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "probe-day.svg")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-rewrite accepts it)", path)
	}
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
