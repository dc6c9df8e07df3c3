package physical

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// drainReport is what `frazil drain --format json` prints, as far as it is compared.
type drainReport struct {
	Snapshots           []int64
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DataFilesIndexed    int64 `json:"data_files_indexed"`
	DataFilesForgotten  int64 `json:"data_files_forgotten"`
}

// killing is a step of a drain's commit at which the process is killed.
type killing struct {
	name string
	at   func(deletes int64) moment
	// indexed: all data files are in the index by then. committed: the table has the commit.
	indexed, committed bool
}

func at(m moment) func(int64) moment { return func(int64) moment { return m } }

// killings are all steps, in their order.
func killings() []killing {
	return []killing{
		// The equality deletes come first.
		{name: "while_data_is_read", at: func(deletes int64) moment { return moment{kind: readData, objects: true, n: int(deletes) + 3} }},
		{name: "before_anything_is_written", at: at(moment{kind: deleteFile, n: 1}), indexed: true},
		{name: "a_delete_file_is_written", at: at(moment{kind: deleteFile, n: 1, done: true}), indexed: true},
		{name: "all_delete_files_are_written", at: at(moment{kind: manifest, n: 1}), indexed: true},
		{name: "manifests_are_written", at: at(moment{kind: list, n: 1}), indexed: true},
		{name: "before_the_commit", at: at(moment{kind: commit, n: 1}), indexed: true},
		{name: "the_commit_is_not_answered", at: at(moment{kind: commit, n: 1, done: true}), indexed: true, committed: true},
		{name: "after_the_commit", at: at(moment{kind: load, n: 1, after: commit}), indexed: true, committed: true},
	}
}

// victim is a table whose drain is killed.
type victim struct {
	killing
	name    string
	live    liveRows
	deletes int64
	// left are the objects that the killed drain has written, after are all that the next one wrote.
	left, after []string
	snapshot    int64 // once the drain was killed
}

// TestKilledAtEveryStep kills drains with SIGKILL, each at another step of its commit. The next one finishes what is
// left: the table holds its rows, the index has every data file once, and what stays in the store is what Iceberg's
// remove_orphan_files takes.
func TestKilledAtEveryStep(t *testing.T) {
	w := newWorld(t)
	g := newGate(t, w.lake)
	victims := w.victims(t)
	for _, v := range victims {
		t.Run(v.name, func(t *testing.T) { w.kill(t, g, v) })
	}
	if t.Failed() {
		return
	}
	var names []string
	var queries []harness.Query
	for _, v := range victims {
		names = append(names, v.name)
		queries = append(queries, harness.Query{ID: v.name + "@killed", Table: namespace + "." + v.name, Snapshot: v.snapshot})
		if v.kind() == commit {
			queries = append(queries, orphans(v)...)
		}
	}
	spark := w.ask(t, harness.Spark, queries)
	drained := w.ask(t, harness.PyIceberg, all(names))
	for _, v := range victims {
		t.Run(v.name+"/rows", func(t *testing.T) {
			compare(t, "killed", v.live.rows(), spark[v.name+"@killed"])
			compare(t, "drained, and the orphans removed", v.live.rows(), drained[v.name])
			if v.kind() == commit {
				v.checkOrphans(t, spark[v.name+".orphans"])
			}
		})
	}
	w.goOn(t, victims)
}

func (k killing) kind() kind { return k.at(0).kind }

// victims writes a table of each format version for each step.
func (w *world) victims(t *testing.T) []*victim {
	t.Helper()
	var all []*victim
	for _, version := range []int{2, 3} {
		for _, k := range killings() {
			all = append(all, &victim{killing: k, name: fmt.Sprintf("%s_v%d", k.name, version)})
		}
	}
	tables := make([]map[string]any, len(all))
	for i, v := range all {
		tables[i] = map[string]any{
			"table": v.name, "version": 2 + i/len(killings()), "partitioned": false, "rows": 20, "space": 100, "commits": 8, "seed": *seed + int64(i),
		}
	}
	w.written(t, all, tables)
	return all
}

// written lets the writer write what the tables say, and remembers what they hold.
func (w *world) written(t *testing.T, victims []*victim, tables []map[string]any) {
	t.Helper()
	live, err := w.upsert(t.Context(), tables...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range victims {
		v.live = live[i]
		v.deletes = w.probed(t, v.name).Totals.EqualityDeleteFiles
	}
}

func (w *world) probed(t *testing.T, table string) (r report) {
	t.Helper()
	if err := json.Unmarshal([]byte(w.must(t, "probe", namespace+"."+table, "--format", "json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// drainThrough drains a table through the gate, with the index.
func (w *world) drainThrough(t *testing.T, g *gate, table string, flags ...string) (r drainReport) {
	t.Helper()
	cmd, out, errs := w.command(g.lake, append([]string{"drain", namespace + "." + table, "--format", "json", "--quiet"}, flags...)...)
	if killed, err := g.run(cmd, moment{}); killed || err != nil {
		t.Fatalf("drain: %v\n%s", err, errs)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kill kills a drain of the table and drains it again.
func (w *world) kill(t *testing.T, g *gate, v *victim) {
	before := w.metadata(t, v.name).Current
	g.take()
	cmd, _, errs := w.command(g.lake, append([]string{"drain", namespace + "." + v.name, "--quiet"}, w.indexFlags()...)...)
	killed, err := g.run(cmd, v.at(v.deletes))
	if !killed {
		t.Fatalf("the step did not come: %v\n%s", err, errs)
	}
	v.left, _ = g.take()
	v.snapshot = w.metadata(t, v.name).Current
	if committed := v.snapshot != before; committed != v.committed {
		t.Fatalf("committed: %t", committed)
	}
	r := w.drainThrough(t, g, v.name, w.indexFlags()...)
	v.after, _ = g.take()
	wantDeletes, wantSnapshots := v.deletes, 1
	if v.committed {
		wantDeletes, wantSnapshots = 0, 0
	}
	if r.EqualityDeleteFiles != wantDeletes || len(r.Snapshots) != wantSnapshots {
		t.Errorf("the next drain: %+v", r)
	}
	if v.indexed && r.DataFilesIndexed != 0 {
		t.Errorf("the next drain has read %d data files again for the index", r.DataFilesIndexed)
	}
	if totals := w.probed(t, v.name).Totals; totals.EqualityDeleteFiles != 0 {
		t.Errorf("%d equality deletes are left", totals.EqualityDeleteFiles)
	}
}

// orphans are the statements that have Iceberg remove from a table what no snapshot names, of what drains have written.
func orphans(v *victim) []harness.Query {
	var rows []string
	for _, path := range append(slices.Clone(v.left), v.after...) {
		rows = append(rows, fmt.Sprintf("('%s', timestamp '2020-01-01')", path))
	}
	return []harness.Query{
		{ID: v.name + ".listing", SQL: "CREATE OR REPLACE TEMPORARY VIEW listing AS SELECT * FROM VALUES " + strings.Join(rows, ", ") + " AS t(file_path, last_modified)"},
		{ID: v.name + ".orphans", SQL: fmt.Sprintf("CALL %s.system.remove_orphan_files(table => '%s.%s', file_list_view => 'listing')", cat, namespace, v.name)},
	}
}

// checkOrphans: a commit that has not come to the catalog leaves all that was written, one that has leaves nothing.
func (v *victim) checkOrphans(t *testing.T, a harness.Answer) {
	t.Helper()
	if a.Error != "" {
		t.Fatalf("remove_orphan_files: %s", a.Error)
	}
	var got, want []string
	for _, row := range a.Rows {
		got = append(got, fmt.Sprint(row[0]))
	}
	if !v.committed {
		want = slices.Clone(v.left)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Iceberg takes for orphans\n%q\nwant\n%q", got, want)
	}
}

// goOn lets the writers go on and drains with the same index, which has to read no more than what they have added.
func (w *world) goOn(t *testing.T, victims []*victim) {
	var tables []map[string]any
	before := map[string]int64{}
	for i, v := range victims {
		before[v.name] = w.probed(t, v.name).Totals.DataFiles
		tables = append(tables, map[string]any{
			"table": v.name, "partitioned": false, "rows": 20, "space": 100, "commits": 3, "seed": *seed + int64(1000+i), "live": v.live.Live,
		})
	}
	w.written(t, victims, tables)
	var names []string
	for _, v := range victims {
		names = append(names, v.name)
		t.Run(v.name+"/again", func(t *testing.T) {
			var r drainReport
			args := append([]string{"drain", namespace + "." + v.name, "--format", "json"}, w.indexFlags()...)
			if err := json.Unmarshal([]byte(w.must(t, args...)), &r); err != nil {
				t.Fatal(err)
			}
			added := w.probed(t, v.name).Totals.DataFiles - before[v.name]
			if r.EqualityDeleteFiles != v.deletes || r.DataFilesIndexed == 0 || r.DataFilesIndexed > added {
				t.Errorf("%d data files were added, %+v", added, r)
			}
		})
	}
	for name, a := range w.ask(t, harness.PyIceberg, all(names)) {
		at := slices.Index(names, name)
		t.Run(name+"/in_the_end", func(t *testing.T) { compare(t, name, victims[at].live.rows(), a) })
	}
}
