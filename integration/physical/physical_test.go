package physical

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

var seed = flag.Int64("physical.seed", 20261130, "of the first table's history; the others follow")

// sinkTable is a table that Flink's sink fills.
type sinkTable struct {
	Name        string `json:"name"`
	Version     int    `json:"version"`
	Partitioned bool   `json:"partitioned"`
	Rows        int    `json:"rows"`
	PerSecond   int    `json:"per_second"`
	Space       int    `json:"space"`
}

// sinkTables: a few hundred keys, each of them many times and some of them twice between two checkpoints.
func sinkTables() []sinkTable {
	return []sinkTable{
		{Name: "flink_v2", Version: 2, Rows: 1500, PerSecond: 200, Space: 300},
		{Name: "flink_v3", Version: 3, Partitioned: true, Rows: 1500, PerSecond: 200, Space: 300},
	}
}

// TestTablesOfOthers writes tables as others do and puts all tools to them.
func TestTablesOfOthers(t *testing.T) {
	w := newWorld(t)
	tables := shapes(*seed)
	unpartitioned := map[string]bool{}
	t.Logf("seed %d", *seed)
	lines, err := w.write(t.Context(), map[string]any{"tables": tables})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		t.Logf("%s", line)
	}
	w.fill(t, sinkTables())
	for _, s := range tables {
		unpartitioned[s.Name] = s.neverPartitioned()
	}
	for _, s := range sinkTables() {
		unpartitioned[s.Name] = !s.Partitioned
	}
	t.Run("probe", func(t *testing.T) { w.probeAll(t, unpartitioned) })
}

// fill lets Flink's sink write tables.
func (w *world) fill(t *testing.T, tables []sinkTable) {
	t.Helper()
	sink := harness.FlinkProgram(t, filepath.Join(harness.Root(t), "integration", "physical", "sink"), "Sink")
	properties := w.lake.Properties()
	properties["uri"] = w.lake.URI
	if _, err := sink.Run(t.Context(), map[string]any{"catalog": properties, "namespace": namespace, "tables": tables}); err != nil {
		t.Fatal(err)
	}
}

// probeAll compares probe with Spark and the Java library, table by table.
func (w *world) probeAll(t *testing.T, unpartitioned map[string]bool) {
	var names []string
	var queries []harness.Query
	for name, never := range unpartitioned {
		names = append(names, name)
		queries = append(queries, w.probeQueries(t, name, never)...)
	}
	lines, err := w.write(t.Context(), map[string]any{"plans": names})
	if err != nil {
		t.Fatal(err)
	}
	planned := map[string]cost{}
	for _, line := range lines {
		var p struct {
			Table string
			cost
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		planned[p.Table] = p.cost
	}
	spark := w.ask(t, harness.Spark, queries)
	for _, name := range names {
		t.Run(name, func(t *testing.T) { w.checkProbe(t, name, spark, planned[name]) })
	}
}
