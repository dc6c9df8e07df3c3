package physical

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// report is what `frazil probe --format json` prints, as far as it is compared.
type report struct {
	Totals     counts
	Partitions []partition
}

type counts struct {
	DataFiles           int64 `json:"data_files"`
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeleteKeys          int64 `json:"delete_keys"`
	PositionDeleteFiles int64 `json:"position_delete_files"`
	DeletionVectors     int64 `json:"deletion_vectors"`
	Plain, Pruned       cost
}

type cost struct {
	ProbeUnits       int64 `json:"probe_units"`
	DataFilesTouched int64 `json:"data_files_touched"`
	WorstFanout      int64 `json:"worst_fanout"`
	WorstKeys        int64 `json:"worst_keys_per_data_file"`
}

type partition struct {
	Global    bool
	SpecID    int32 `json:"spec_id"`
	Partition string
	counts
	GlobalUnits int64 `json:"global_probe_units"`
}

// article is the statement of the article about equality deletes, with the partition spec beside the partition: live
// delete files joined with the older live data files of their partition.
const article = `WITH live AS (
  SELECT data_file.content AS content, data_file.spec_id AS spec, %[2]s AS part, data_file.file_path AS path, data_file.record_count AS keys,
    sequence_number AS seq
  FROM %[1]s.entries WHERE status < 2),
deletes AS (SELECT * FROM live WHERE content = 2),
data AS (SELECT * FROM live WHERE content = 0),
touched AS (
  SELECT d.spec, d.part, d.path, d.keys, count(*) AS fanout
  FROM deletes d JOIN data f ON f.part = d.part AND f.spec = d.spec AND f.seq < d.seq GROUP BY 1, 2, 3, 4)
SELECT spec, part, sum(keys * fanout) AS units, max(fanout) AS worst FROM touched GROUP BY 1, 2`

// global is what that statement misses: deletes of unpartitioned specs, held against all older data files.
const global = `WITH live AS (
  SELECT data_file.content AS content, data_file.spec_id AS spec, %[2]s AS part, data_file.file_path AS path, data_file.record_count AS keys,
    sequence_number AS seq
  FROM %[1]s.entries WHERE status < 2)
SELECT f.spec, f.part, sum(d.keys) AS units FROM live d JOIN live f ON f.seq < d.seq
WHERE d.content = 2 AND d.spec IN (%[3]s) AND f.content = 0 GROUP BY 1, 2`

// files is what the table has of each content, by the metadata tables of live files.
const files = `SELECT 'data' AS kind, count(*) AS files, sum(record_count) AS records FROM %[1]s.data_files
UNION ALL SELECT 'equality', count(*), sum(record_count) FROM %[1]s.delete_files WHERE content = 2
UNION ALL SELECT 'position', count(*), sum(record_count) FROM %[1]s.delete_files WHERE content = 1 AND file_format <> 'PUFFIN'
UNION ALL SELECT 'vector', count(*), sum(record_count) FROM %[1]s.delete_files WHERE content = 1 AND file_format = 'PUFFIN'`

// probeQueries are Spark's statements about a table.
func (w *world) probeQueries(t testing.TB, table string, unpartitioned bool) []harness.Query {
	t.Helper()
	part := "data_file.partition"
	if unpartitioned { // Spark leaves the column out
		part = "named_struct('none', 0)"
	}
	name := cat + "." + namespace + "." + table
	queries := []harness.Query{
		{ID: table + ".article", SQL: fmt.Sprintf(article, name, part)},
		{ID: table + ".files", SQL: fmt.Sprintf(files, name)},
	}
	if specs := w.globalSpecs(t, table); specs != "" {
		queries = append(queries, harness.Query{ID: table + ".global", SQL: fmt.Sprintf(global, name, part, specs)})
	}
	return queries
}

// globalSpecs lists the unpartitioned specs of a table.
func (w *world) globalSpecs(t testing.TB, table string) string {
	t.Helper()
	var ids []string
	for _, spec := range w.metadata(t, table).Specs {
		if len(spec.Fields) == 0 {
			ids = append(ids, strconv.Itoa(int(spec.ID)))
		}
	}
	return strings.Join(ids, ", ")
}

// checkProbe compares what probe says of a table with what the Java library says, and Spark if it was asked.
func (w *world) checkProbe(t *testing.T, table string, spark map[string]harness.Answer, planned cost, article bool) {
	t.Helper()
	var r report
	if err := json.Unmarshal([]byte(w.must(t, "probe", namespace+"."+table, "--format", "json", "--top", "0")), &r); err != nil {
		t.Fatal(err)
	}
	// The library plans with bounds, as Spark and Flink do.
	if r.Totals.Pruned != planned {
		t.Errorf("after pruning %+v, and the library plans %+v", r.Totals.Pruned, planned)
	}
	if !article {
		return
	}
	for _, id := range []string{".article", ".files", ".global"} {
		if e := spark[table+id].Error; e != "" {
			t.Fatalf("Spark, %s%s: %s", table, id, e)
		}
	}
	want := map[string]int64{}
	for _, row := range spark[table+".files"].Rows {
		want[row[0].(string)] = number(t, row[1])
		if row[0] == "equality" && row[2] != nil {
			want["keys"] = number(t, row[2])
		}
	}
	got := map[string]int64{
		"data": r.Totals.DataFiles, "equality": r.Totals.EqualityDeleteFiles, "keys": r.Totals.DeleteKeys,
		"position": r.Totals.PositionDeleteFiles, "vector": r.Totals.DeletionVectors,
	}
	for kind, n := range got {
		if n != want[kind] {
			t.Errorf("%d %s, and Spark counts %d", n, kind, want[kind])
		}
	}
	w.checkUnits(t, &r, spark[table+".article"], spark[table+".global"])
}

// checkUnits compares probe units by partition: those of the article, and the global ones beside it.
func (w *world) checkUnits(t *testing.T, r *report, article, global harness.Answer) {
	t.Helper()
	var missed int64 // what the article's statement does not count
	units, worst := int64(0), int64(0)
	for _, row := range article.Rows {
		units += number(t, row[2])
	}
	for _, p := range r.Partitions {
		own, beside := find(article.Rows, p), find(global.Rows, p)
		if beside != nil && number(t, beside[2]) != p.GlobalUnits && p.Partition != "" {
			t.Errorf("partition %s of spec %d: %d units of global deletes, and Spark counts %v", p.Partition, p.SpecID, p.GlobalUnits, beside[2])
		}
		if p.Partition == "" {
			continue
		}
		missed += p.GlobalUnits
		want, fanout := int64(0), int64(0)
		if own != nil {
			want, fanout = number(t, own[2]), number(t, own[3])
		}
		worst = max(worst, fanout)
		if p.Plain.ProbeUnits != want || p.Plain.WorstFanout != fanout {
			t.Errorf("partition %s of spec %d: %d probe units, fan-out %d; Spark counts %d, %d", p.Partition, p.SpecID, p.Plain.ProbeUnits, p.Plain.WorstFanout, want, fanout)
		}
	}
	if r.Totals.Plain.ProbeUnits != units+missed {
		t.Errorf("%d probe units, and Spark counts %d beside %d of global deletes in partitions", r.Totals.Plain.ProbeUnits, units, missed)
	}
	if r.Totals.Plain.WorstFanout < worst {
		t.Errorf("worst fan-out %d, and Spark counts %d in a partition", r.Totals.Plain.WorstFanout, worst)
	}
	t.Logf("%d probe units in partitions, %d of global deletes beside; %d after pruning", units, missed, r.Totals.Pruned.ProbeUnits)
}

// find is Spark's row of a partition: columns spec and part, which holds the fields of all specs.
func find(rows [][]any, p partition) []any {
	for _, row := range rows {
		spec, part := fmt.Sprint(row[0]), row[1].(map[string]any)
		if spec != strconv.Itoa(int(p.SpecID)) {
			continue
		}
		all := true
		for _, field := range strings.Split(p.Partition, "/") {
			name, value, _ := strings.Cut(field, "=")
			spelt := "null"
			if v := part[name]; v != nil {
				spelt = strings.TrimPrefix(fmt.Sprint(v), "date:")
			}
			all = all && (p.Partition == "" || spelt == value)
		}
		if all {
			return row
		}
	}
	return nil
}

func number(t testing.TB, v any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		t.Fatalf("%v is no number", v)
	}
	return n
}
