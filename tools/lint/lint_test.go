package lint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/parquet-go/parquet-go"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/lint"
)

var rewrite = flag.Bool("rewrite", false, "write the results into testdata")

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := lint.Command().Run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), err
}

// orders has an equality delete, an unsorted position delete file and a delete that names its file by s3a.
func orders(t *testing.T, dir string) *scantest.Table {
	t.Helper()
	table := scantest.New(t, 2, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true}), iceberg.NewPartitionSpecID(0))
	table.Location = "file://" + dir + "/orders"
	at := func(name string) string { return table.Location + "/data/" + name }
	bound := func(path string) map[int][]byte { return map[int][]byte{int(icebergscan.PathFieldID): []byte(path)} }
	table.Commit("append", nil, []scantest.File{{Path: at("a.parquet"), Records: 100}, {Path: at("b.parquet"), Records: 100}})
	type row struct {
		Path string `parquet:"file_path"`
		Pos  int64  `parquet:"pos"`
	}
	var unsorted bytes.Buffer
	w := parquet.NewGenericWriter[row](&unsorted)
	if _, err := w.Write([]row{{at("a.parquet"), 7}, {at("a.parquet"), 3}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	table.Lake.Objects[at("unsorted.parquet")] = unsorted.Bytes()
	slashes := strings.Replace(at("b.parquet"), "/orders/", "//orders/", 1)
	table.Commit("overwrite", map[string]string{"total-records": "1"}, []scantest.File{
		{Path: at("e.parquet"), Records: 3, Content: iceberg.EntryContentEqDeletes, EqualityIDs: []int{1}},
		{Path: at("unsorted.parquet"), Records: 2, Size: int64(unsorted.Len()), Content: iceberg.EntryContentPosDeletes, Lower: bound(at("a.parquet")), Upper: bound(at("a.parquet"))},
		{Path: at("slashes.parquet"), Records: 2, Content: iceberg.EntryContentPosDeletes, Lower: bound(slashes), Upper: bound(slashes)},
	})
	table.Metadata()
	table.Lake.WriteFiles(t)
	return table
}

func golden(t *testing.T, name, dir, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, dir, "DIR")
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
	for name, more := range map[string][]string{
		"metadata.txt": {"--readers", "spark,snowflake"},
		"opened.txt":   {"--readers", "clickhouse", "--open-deletes"},
		"opened.json":  {"--readers", "clickhouse", "--open-deletes", "--format", "json"},
	} {
		out, err := run(t, append([]string{"db.orders", "--metadata", table.MetadataLocation()}, more...)...)
		if !errors.Is(err, command.ErrFound) {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, name, dir, out)
	}
}

func TestExitCodeFollowsSeverity(t *testing.T) {
	table := scantest.New(t, 2, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64}), iceberg.NewPartitionSpecID(0))
	table.Location = "file://" + t.TempDir()
	table.Commit("append", map[string]string{"total-records": "9"}, []scantest.File{{Path: "a", Records: 1}})
	table.Metadata()
	table.Lake.WriteFiles(t)
	at := []string{"--metadata", table.MetadataLocation(), "--format", "json"}
	out, err := run(t, at...)
	if err != nil {
		t.Errorf("a warning: %v", err)
	}
	var r lint.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Warnings != 1 || r.Errors != 0 || r.SnapshotID == 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := run(t, append(at, "--strict")...); !errors.Is(err, command.ErrFound) {
		t.Errorf("a warning under --strict: %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil, {"db.t"}, {"db.t", "--readers", "sparc", "--metadata", "x"}, {"db.t", "--metadata", "x", "--format", "xml"},
		{"a.b", "c.d", "--metadata", "x"}, {"db.t", "--metadata", "x", "--max-files", "-1"},
	} {
		if _, err := run(t, args...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
