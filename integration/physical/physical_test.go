package physical

import (
	"encoding/json"
	"errors"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

var (
	seed = flag.Int64("physical.seed", 20261130, "of the first table's history; the others follow")
	only = flag.String("physical.only", "", "tables whose names contain this")
)

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
		{Name: "flink_v2", Version: 2, Rows: 2000, PerSecond: 100, Space: 300},
		{Name: "flink_v3", Version: 3, Partitioned: true, Rows: 2000, PerSecond: 100, Space: 300},
	}
}

const randomTables = 4

// TestTablesOfOthers writes tables as others do and puts all tools to them.
func TestTablesOfOthers(t *testing.T) {
	w := newWorld(t)
	t.Logf("seed %d", *seed)
	tables, histories := w.writeAll(t)
	before := w.before(t, tables)
	for _, table := range tables {
		t.Run("probe/"+table.name, func(t *testing.T) {
			w.checkProbe(t, table.name, before.spark, before.planned[table.name].cost, table.article)
		})
		t.Run("lint/"+table.name, func(t *testing.T) { w.checkLint(t, table.name, before) })
	}
	t.Run("drain", func(t *testing.T) { w.checkDrain(t, tables, histories, before.spark) })
}

// table is one that was written.
type table struct {
	name string
	// neverPartitioned: all specs are unpartitioned. Spark's metadata tables have no column "partition" then.
	neverPartitioned bool
	// article: Spark counts probe units too. It takes a while, and not every table says something new.
	article bool
}

// writeAll lets the Java library and Flink's sink write their tables, both at once.
func (w *world) writeAll(t *testing.T) (tables []table, histories []shape) {
	t.Helper()
	var streams []sinkTable
	counted := []string{"many_commits", "partitioned", "evolved", "vectors_from_v2"}
	for _, s := range append(shapes(*seed), randomShapes(*seed, randomTables)...) {
		if strings.Contains(s.Name, *only) {
			histories = append(histories, s)
			tables = append(tables, table{s.Name, s.Partition == "" && len(s.Evolve) == 0, slices.Contains(counted, s.Name)})
		}
	}
	for _, s := range sinkTables() {
		if strings.Contains(s.Name, *only) {
			streams = append(streams, s)
			tables = append(tables, table{s.Name, !s.Partitioned, true})
		}
	}
	sink := harness.FlinkProgram(t, filepath.Join(harness.Root(t), "integration", "physical", "sink"), "Sink")
	both := make(chan error, 2)
	go func() {
		properties := w.lake.Properties()
		properties["uri"] = w.lake.URI
		if len(streams) == 0 {
			both <- nil
			return
		}
		_, err := sink.Run(t.Context(), map[string]any{"catalog": properties, "namespace": namespace, "tables": streams})
		both <- err
	}()
	go func() {
		lines, err := w.write(t.Context(), map[string]any{"tables": histories})
		for _, line := range lines {
			t.Logf("%s", line)
		}
		both <- err
	}()
	if err := errors.Join(<-both, <-both); err != nil {
		t.Fatal(err)
	}
	return tables, histories
}

// answers are what engines say of all tables before anything is done to them.
type answers struct {
	spark, pyiceberg, duckdb map[string]harness.Answer
	planned                  map[string]plan
}

// plan is what the Java library says of a table.
type plan struct {
	Table string
	cost
	EqualityFiles []string `json:"equality_files"`
}

func (w *world) before(t *testing.T, tables []table) answers {
	t.Helper()
	a := answers{planned: map[string]plan{}}
	var names []string
	var statements []harness.Query
	for _, table := range tables {
		names = append(names, table.name)
		if table.article {
			statements = append(statements, w.probeQueries(t, table.name, table.neverPartitioned)...)
		}
	}
	lines, err := w.write(t.Context(), map[string]any{"plans": names})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		var p plan
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		a.planned[p.Table] = p
	}
	a.spark = w.ask(t, harness.Spark, append(statements, all(names)...))
	a.pyiceberg = w.ask(t, harness.PyIceberg, all(names))
	a.duckdb = w.ask(t, harness.DuckDB, all(names))
	return a
}
