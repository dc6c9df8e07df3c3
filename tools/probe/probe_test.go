package probe

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/tools/command"
)

var rewrite = flag.Bool("rewrite", false, "write the results into testdata")

func long(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }

// orders is a table by day with upserts, a compaction-free history, and deletes from before it was partitioned.
func orders(t *testing.T, dir string) *scantest.Table {
	t.Helper()
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "day", Type: iceberg.PrimitiveTypes.Date})
	table := scantest.New(t, 2, schema,
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{2}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}}))
	table.Location = "file://" + dir + "/orders"
	data := func(n, spec int, lo, hi int64) scantest.File {
		f := scantest.File{Path: fmt.Sprintf("%s/data/d%03d.parquet", table.Location, n), Spec: spec, Records: 1000, Lower: map[int][]byte{1: long(lo)}, Upper: map[int][]byte{1: long(hi)}}
		if spec == 1 {
			f.Partition = map[int]any{1000: iceberg.Date(20000 + n%3)}
		}
		return f
	}
	deletes := func(n, spec int, keys, lo, hi int64) scantest.File {
		f := data(n, spec, lo, hi)
		f.Path, f.Records = fmt.Sprintf("%s/data/e%03d.parquet", table.Location, n), keys
		f.Content, f.EqualityIDs = iceberg.EntryContentEqDeletes, []int{1}
		return f
	}
	table.Commit("append", nil, []scantest.File{data(0, 0, 0, 999), data(1, 0, 1000, 1999)})
	table.Commit("overwrite", map[string]string{"added-equality-deletes": "40"}, []scantest.File{data(2, 0, 500, 600), deletes(2, 0, 40, 500, 600)})
	for n := 3; n < 12; n++ {
		table.Commit("overwrite", map[string]string{"added-equality-deletes": "100"}, []scantest.File{data(n, 1, int64(n*100), int64(n*100+500)), deletes(n, 1, 100, int64(n*100), int64(n*100+150))})
	}
	table.Commit("delete", nil, []scantest.File{{
		Path: table.Location + "/data/p.parquet", Content: iceberg.EntryContentPosDeletes, Spec: 1, Partition: map[int]any{1000: iceberg.Date(20000)},
		Records: 3, Reference: table.Location + "/data/d003.parquet",
	}})
	return table
}

func clock() prober {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	return prober{now: func() time.Time { return at }}
}

func probeIt(t *testing.T, p prober, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := p.run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), err
}

func golden(t *testing.T, name, dir, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, dir, "DIR")
	got = regexp.MustCompile(`[0-9.]+k?B of manifests|"manifest_bytes": \d+`).ReplaceAllString(got, "BYTES") // compression is the writer's
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-rewrite accepts it); got:\n%s", path, got)
	}
}

func TestOutput(t *testing.T) {
	dir := t.TempDir()
	table := orders(t, dir)
	table.Metadata()
	table.Lake.WriteFiles(t)
	for _, format := range []string{"table", "json", "prometheus"} {
		out, err := probeIt(t, clock(), "db.orders", "--metadata", table.MetadataLocation(), "--format", format, "--top", "3")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "orders."+format, dir, out)
	}
}

func TestFailAbove(t *testing.T) {
	table := orders(t, t.TempDir())
	table.Metadata()
	table.Lake.WriteFiles(t)
	at := []string{"db.orders", "--metadata", table.MetadataLocation()}
	if _, err := probeIt(t, clock(), append(at, "--fail-above", "probe_units=1G,delete_keys=1k")...); err != nil {
		t.Errorf("within limits: %v", err)
	}
	_, err := probeIt(t, clock(), append(at, "--fail-above", "probe_units=10", "--fail-above", "delete_keys=1k")...)
	if !errors.Is(err, command.ErrFound) || !strings.Contains(err.Error(), "probe_units is ") || strings.Contains(err.Error(), "delete_keys") {
		t.Errorf("above one: %v", err)
	}
	for _, bad := range []string{"probe_unit=1", "probe_units", "probe_units=x", "probe_units=-1"} {
		if _, err := probeIt(t, clock(), append(at, "--fail-above", bad)...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A day in the life of a table: the state file grows, the trend is told, a chart is drawn from it alone.
func TestStateTrendAndChart(t *testing.T) {
	dir := t.TempDir()
	table := orders(t, dir)
	state, chart := filepath.Join(dir, "history"), filepath.Join(dir, "chart.svg")
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	p := prober{now: func() time.Time { return at }}
	step := func() *Result {
		t.Helper()
		at = at.Add(30 * time.Minute)
		table.Metadata()
		table.Lake.WriteFiles(t)
		out, err := probeIt(t, p, "db.orders", "--metadata", table.MetadataLocation(), "--state", state, "--format", "json")
		if err != nil {
			t.Fatal(err)
		}
		var r Result
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	first := step()
	if first.Trend.Kind != "first" {
		t.Errorf("got %+v", first.Trend)
	}
	table.Commit("overwrite", map[string]string{"added-equality-deletes": "8"}, []scantest.File{{
		Path: table.Location + "/data/e900.parquet", Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}, Records: 8,
	}})
	if got := step(); got.Trend.Kind != "grown" || got.Trend.ProbeUnits != 8*12 || got.Trend.ProbeUnitsPerHour != 2*8*12 {
		t.Errorf("got %+v", got.Trend)
	}
	var gone []string
	for _, f := range table.Live() {
		if f.Content == iceberg.EntryContentEqDeletes {
			gone = append(gone, f.Path)
		}
	}
	table.Commit("replace", map[string]string{"removed-equality-deletes": "948"}, nil, gone...)
	if got := step(); got.Trend.Kind != "reset" || got.Totals.Plain.ProbeUnits != 0 || got.Trend.KeysRemoved != 948 {
		t.Errorf("got %+v", got.Trend)
	}
	if _, err := probeIt(t, p, "db.orders", "--state", state, "--chart", chart); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(svg), "<polyline") != 2 || strings.Count(string(svg), "stroke-dasharray") != 1 {
		t.Errorf("got %s", svg)
	}
	if _, err := probeIt(t, p, "db.other", "--state", state, "--chart", chart); err == nil {
		t.Error("a chart of a table without runs")
	}
}

func TestHistoryIsShortenedAndAHalfLineEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h")
	line := `{"table":"x","at":"2026-11-29T12:00:00Z","ref":"main"}` + "\n"
	if err := os.WriteFile(file, []byte(strings.Repeat(line, maxHistory/len(line)+2)+`{"table":"x","at`), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := last(file, "x", "main", nil)
	if err != nil || rec == nil {
		t.Fatal(rec, err)
	}
	rec.ProbeUnits = 7
	if err := keep(file, *rec); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(file)
	if err != nil || after.Size() > before.Size()*6/10 {
		t.Fatal(after.Size(), before.Size(), err)
	}
	got, err := last(file, "x", "main", nil)
	if err != nil || got.ProbeUnits != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil, {"db.t"}, {"db.t", "--format", "xml", "--metadata", "x"}, {"db.t", "--catalog-uri", "ftp://x"}, {"db.t", "--chart", "x"},
		{"a.b", "c.d", "--metadata", "x"}, {"db.t", "--catalog-uri", "http://x", "--catalog-type", "hms"}, {"db.t", "--prop", "x"}, {"db.t", "--interval", "0s"},
	} {
		if _, err := probeIt(t, clock(), args...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
