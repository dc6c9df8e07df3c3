package physical

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// verdict is what `frazil lint --format json` prints, as far as it is compared.
type verdict struct {
	Errors   int
	Findings []struct {
		Check    string
		Severity string
		Readers  []string
		Files    []string
	}
}

const foundCode = 3 // exit code of lint and probe for "there is something"

// lintFor asks lint about one reader.
func (w *world) lintFor(t *testing.T, table string, reader harness.Engine) verdict {
	t.Helper()
	out, errs, code := w.frazil(t, "lint", namespace+"."+table, "--readers", string(reader), "--format", "json", "--max-files", "0", "--open-deletes")
	var v verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("lint: exit code %d, %v\n%s%s", code, err, out, errs)
	}
	if want := map[bool]int{true: foundCode}[v.Errors > 0]; code != want {
		t.Errorf("lint: exit code %d with %d errors", code, v.Errors)
	}
	return v
}

// checkLint holds lint's verdict against what the reader does.
func (w *world) checkLint(t *testing.T, table string, before answers) {
	t.Helper()
	unread := before.planned[table].EqualityFiles
	slices.Sort(unread)
	for _, f := range w.lintFor(t, table, harness.PyIceberg).Findings {
		if f.Check == "unread-equality" && f.Severity == "error" {
			slices.Sort(f.Files)
			if !slices.Equal(f.Files, unread) {
				t.Errorf("lint names %d files that PyIceberg refuses, and the table has %d equality deletes", len(f.Files), len(unread))
			}
			unread = nil
		}
	}
	if len(unread) > 0 {
		t.Errorf("lint does not say that PyIceberg refuses %d equality deletes", len(unread))
	}
	if e := before.pyiceberg[table].Error; !strings.Contains(e, "equality") {
		t.Errorf("PyIceberg answers %q, and lint says that it refuses equality deletes", e)
	}
	// Lint may warn of what does no harm in this table. It must not be silent about wrong rows.
	v := w.lintFor(t, table, harness.DuckDB)
	duckdb := before.duckdb[table]
	right := duckdb.Error == "" && slices.Equal(rowsOf(duckdb), rowsOf(before.spark[table]))
	if !right && duckdb.Error == "" && v.Errors == 0 {
		t.Errorf("DuckDB reads wrong rows (%d, and Spark reads %d) without an error, and lint finds nothing: %+v", len(duckdb.Rows), len(before.spark[table].Rows), v.Findings)
	}
	if !right && v.Errors == 0 {
		t.Logf("DuckDB fails for a reason that lint does not know: %.300s", duckdb.Error)
	}
	t.Logf("DuckDB reads the table right: %t; lint finds %d errors for it", right, v.Errors)
}
