package physical

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
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

// readers are the engines that must read a drained table as Spark read it before: PyIceberg, which refuses equality
// deletes, is one of them.
func readers() []harness.Engine {
	return []harness.Engine{harness.Spark, harness.PyIceberg, harness.DuckDB, harness.Trino}
}

// drainFlags are the ways that tables are drained in: by the table's number and the round.
func (w *world) drainFlags(table, round int) []string {
	switch (table + round) % 3 {
	case 1:
		return []string{"--memory", "4KiB"}
	case 2:
		return []string{"--index-dir", filepath.Join(w.lake.Dir, "index")}
	}
	return nil
}

// checkDrain drains the tables, lets the writers go on, drains again, and reads with all engines.
func (w *world) checkDrain(t *testing.T, tables []table, histories []shape, before map[string]harness.Answer) {
	names := w.drainAll(t, tables, 0)
	first := map[string]int64{} // snapshots after the first drain, and before the second
	for _, name := range names {
		first[name] = w.metadata(t, name).Current
	}
	for i := range histories {
		histories[i] = histories[i].next()
	}
	if _, err := w.write(t.Context(), map[string]any{"tables": histories}); err != nil {
		t.Fatal(err)
	}
	second := map[string]int64{}
	for _, name := range names {
		second[name] = w.metadata(t, name).Current
	}
	names = w.drainAll(t, tables, 1)
	var past []harness.Query
	for _, name := range names {
		past = append(past,
			harness.Query{ID: name + "@1", Table: namespace + "." + name, Snapshot: first[name]},
			harness.Query{ID: name + "@2", Table: namespace + "." + name, Snapshot: second[name]})
	}
	spark := w.ask(t, harness.Spark, append(past, all(names)...))
	for _, name := range names {
		t.Run(name+"/first", func(t *testing.T) { same(t, harness.Spark, before[name], spark[name+"@1"]) })
	}
	for _, engine := range readers() {
		t.Run(string(engine), func(t *testing.T) { // one that this machine lacks is skipped alone
			after := spark
			if engine != harness.Spark {
				after = w.ask(t, engine, all(names))
			}
			for _, name := range names {
				t.Run(name, func(t *testing.T) {
					a := after[name]
					if why := unread(engine, histories, name); why == "" {
						same(t, engine, spark[name+"@2"], a)
					} else if !strings.Contains(a.Error, why) {
						t.Errorf("%s is known to say %q of this table, and answers %d rows, %s", engine, why, len(a.Rows), a.Error)
					}
				})
			}
		})
	}
}

// unread is what an engine says of a table that it does not read, whoever has written it; "" = it reads it.
func unread(engine harness.Engine, histories []shape, name string) string {
	at := slices.IndexFunc(histories, func(s shape) bool { return s.Name == name })
	switch {
	case at < 0 || engine != harness.PyIceberg && engine != harness.DuckDB:
		return ""
	case slices.Contains(histories[at].Formats, "avro"):
		return "AVRO"
	case histories[at].Slashes && engine == harness.PyIceberg:
		return "Empty path component" // its store takes data//x for a mistake
	}
	return ""
}

// drainAll drains the tables and answers those that could be.
func (w *world) drainAll(t *testing.T, tables []table, round int) []string {
	var names []string
	for i, table := range tables {
		if t.Run(fmt.Sprintf("%s/round_%d", table.name, round), func(t *testing.T) { w.drained(t, table.name, w.drainFlags(i, round)...) }) {
			names = append(names, table.name)
		}
	}
	if len(names) == 0 {
		t.FailNow()
	}
	return names
}

// same compares what an engine reads with what Spark read before.
func same(t *testing.T, engine harness.Engine, want, got harness.Answer) {
	t.Helper()
	if got.Error != "" {
		t.Errorf("%s: %s", engine, got.Error)
		return
	}
	if want.Error != "" {
		t.Fatalf("Spark, before: %s", want.Error)
	}
	a, b := rowsOf(want), rowsOf(got)
	if slices.Equal(a, b) {
		return
	}
	t.Errorf("%s: %d rows, and Spark read %d before", engine, len(b), len(a))
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
