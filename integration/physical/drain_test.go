package physical

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// all asks for all rows of tables.
func all(tables []string) []harness.Query {
	var queries []harness.Query
	for _, table := range tables {
		queries = append(queries, harness.Query{ID: table, Table: namespace + "." + table})
	}
	return queries
}

// drained runs drain over a table and checks that no equality delete is left.
func (w *world) drained(t *testing.T, table string, flags ...string) {
	t.Helper()
	t.Logf("%s", w.must(t, append([]string{"drain", namespace + "." + table}, flags...)...))
	var r report
	if err := json.Unmarshal([]byte(w.must(t, "probe", namespace+"."+table, "--format", "json")), &r); err != nil {
		t.Fatal(err)
	}
	if r.Totals.EqualityDeleteFiles != 0 || r.Totals.Plain.ProbeUnits != 0 {
		t.Errorf("after drain: %d equality delete files, %d probe units", r.Totals.EqualityDeleteFiles, r.Totals.Plain.ProbeUnits)
	}
}

// same compares what an engine reads with what Spark read before.
func same(t *testing.T, engine harness.Engine, table string, want, got harness.Answer) {
	t.Helper()
	if got.Error != "" {
		t.Errorf("%s, table %s: %s", engine, table, got.Error)
		return
	}
	a, b := rowsOf(want), rowsOf(got)
	if slices.Equal(a, b) {
		return
	}
	t.Errorf("%s, table %s: %d rows, and Spark read %d before", engine, table, len(b), len(a))
	for _, row := range firstOf(without(a, b)) {
		t.Errorf("  missing  %s", row)
	}
	for _, row := range firstOf(without(b, a)) {
		t.Errorf("  too many %s", row)
	}
}

// without are the rows of a sorted list that another has not, as often as it has not.
func without(a, b []string) []string {
	var left []string
	for _, row := range a {
		if i, ok := slices.BinarySearch(b, row); ok {
			b = slices.Delete(slices.Clone(b), i, i+1)
			continue
		}
		left = append(left, row)
	}
	return left
}

func firstOf(rows []string) []string { return rows[:min(len(rows), 5)] }
