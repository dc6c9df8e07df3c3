package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

// TestEnginesReadWhatTheDatabaseSays changes the database in two stages. After each, DuckDB and PyIceberg read every
// table in both dialects: the rows that SELECT gives, in values, nulls and types. After the second they also read the
// snapshot of the first. At the end the database of docker-compose.yml is captured as it says.
func TestEnginesReadWhatTheDatabaseSays(t *testing.T) {
	s := newStack(t)
	var stages []stage
	for _, script := range []string{"stage1.sql", "stage2.sql"} {
		stages = append(stages, s.stage(t, script))
		s.served(t)
		for _, engine := range []harness.Engine{harness.DuckDB, harness.PyIceberg} {
			t.Run(fmt.Sprintf("%s/%s", script, engine), func(t *testing.T) { s.compare(t, engine, stages) })
		}
	}
	for _, table := range tables {
		for _, d := range dialects {
			if stages[0].snapshots[d][table] == stages[1].snapshots[d][table] {
				t.Errorf("%s in %s has the same snapshot after more changes", table, d)
			}
		}
	}
	t.Run("compose", s.compose)
}

// stage is a moment at which nothing changes: what every table holds, and the snapshots that show it.
type stage struct {
	rows      map[string][]string         // by table, spelt, sorted
	snapshots map[string]map[string]int64 // by dialect and table
}

// stage runs a script and waits until its changes have arrived in the tables.
func (s *stack) stage(t *testing.T, script string) stage {
	t.Helper()
	s.db.File(t, database, "testdata/"+script)
	at := stage{rows: map[string][]string{}, snapshots: map[string]map[string]int64{}}
	ends := s.captured(t)
	for _, table := range tables {
		at.rows[table] = s.truth(t, table)
	}
	for _, d := range dialects {
		at.snapshots[d] = map[string]int64{}
		for _, table := range tables {
			loaded := s.load(t, d, table, ends[topic(table)])
			at.snapshots[d][table] = loaded.Metadata.CurrentSnapshot
			s.typed(t, d, table)
		}
	}
	return at
}

// truth is what the database holds, as the oracle's views spell it.
func (s *stack) truth(t *testing.T, table string) []string {
	t.Helper()
	return s.rows(t, database, fmt.Sprintf(`SELECT row_to_json(answer) FROM oracle.%q AS answer`, table))
}

// object is a JSON object, its numbers as they are written.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&values); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return values
}

// compare has an engine read the last stage as the present, and all stages by their snapshots.
func (s *stack) compare(t *testing.T, engine harness.Engine, stages []stage) {
	catalogs := map[string]harness.Catalog{}
	var queries []harness.Query
	for _, d := range dialects {
		catalogs[d] = harness.Catalog{URI: s.gateway.REST, Warehouse: d}
		for _, table := range tables {
			q := harness.Query{Catalog: d, Table: harness.Namespace + "." + harness.TableName(topic(table)), ID: id(d, table, "now")}
			queries = append(queries, q)
			for i, at := range stages {
				q.ID, q.Snapshot = id(d, table, i), at.snapshots[d][table]
				queries = append(queries, q)
			}
		}
	}
	answers := harness.Ask(t, engine, catalogs, queries)
	for _, d := range dialects {
		for _, table := range tables {
			t.Run(table+"/"+d, func(t *testing.T) {
				same(t, "now", answers[id(d, table, "now")], stages[len(stages)-1].rows[table])
				for i, at := range stages {
					same(t, fmt.Sprintf("snapshot of stage %d", i+1), answers[id(d, table, i)], at.rows[table])
				}
			})
		}
	}
}

func id(dialect, table string, what any) string { return fmt.Sprintf("%s/%s/%v", dialect, table, what) }

// same compares an answer with the database's rows, whatever their order. Every row must say where in Kafka it is from.
func same(t *testing.T, what string, got harness.Answer, want []string) {
	t.Helper()
	if got.Error != "" {
		t.Errorf("%s: %s", what, got.Error)
		return
	}
	var rows []string
	places := map[string]bool{}
	for _, values := range got.Rows {
		row := map[string]any{}
		for i, column := range got.Columns {
			row[column] = values[i]
		}
		if at, _ := row["kafka_timestamp"].(string); !strings.HasPrefix(at, "tz:") {
			t.Errorf("%s: kafka_timestamp %v", what, row["kafka_timestamp"])
		}
		places[fmt.Sprint(row["kafka_partition"], " ", row["kafka_offset"])] = true
		for _, column := range []string{"kafka_partition", "kafka_offset", "kafka_timestamp"} {
			delete(row, column)
		}
		rows = append(rows, spelt(t, row))
	}
	if len(places) != len(rows) {
		t.Errorf("%s: %d rows are from %d places", what, len(rows), len(places))
	}
	slices.Sort(rows)
	if !slices.Equal(rows, want) {
		t.Errorf("%s: %d rows, want %d; not in the database:\n%s\nnot in the table:\n%s", what, len(rows), len(want), without(rows, want), without(want, rows))
	}
}

// without lists the rows of a that b does not have, each as often as it has it more.
func without(a, b []string) string {
	left := map[string]int{}
	for _, row := range b {
		left[row]++
	}
	var only []string
	for _, row := range a {
		if left[row]--; left[row] < 0 {
			only = append(only, row)
		}
	}
	return strings.Join(only, "\n")
}

// spelt writes a row down by the names of its columns. Binary floating point has one spelling in each language.
func spelt(t *testing.T, row map[string]any) string {
	t.Helper()
	text, err := json.Marshal(floats(t, row))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func floats(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case string:
		if digits, ok := strings.CutPrefix(v, "f:"); ok {
			f, err := strconv.ParseFloat(digits, 64)
			if err != nil {
				t.Fatal(err)
			}
			return "f:" + strconv.FormatFloat(f, 'g', -1, 64)
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(t, v[k])
		}
	case []any:
		for i := range v {
			v[i] = floats(t, v[i])
		}
	}
	return v
}

// served checks that the catalog has the captured tables and no other: Connect's own topics are none.
func (s *stack) served(t *testing.T) {
	t.Helper()
	for _, d := range dialects {
		status, body, err := s.gateway.Get(t.Context(), "/v1/"+d+"/namespaces/"+harness.Namespace+"/tables", "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("list tables: %d, %v", status, err)
		}
		var list struct{ Identifiers []struct{ Name string } }
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, i := range list.Identifiers {
			got = append(got, i.Name)
		}
		for _, table := range tables {
			want = append(want, harness.TableName(topic(table)))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the tables %v, want %v", d, got, want)
		}
	}
}

// typed compares the columns of a table with those of the database.
func (s *stack) typed(t *testing.T, dialect, table string) {
	t.Helper()
	want := []string{"kafka_partition int", "kafka_offset long", "kafka_timestamp timestamptz"}
	// The oracle's views have the served columns in order; the types are the captured table's.
	for _, line := range s.db.Query(t, database, fmt.Sprintf(`SELECT v.attname, format_type(c.atttypid, c.atttypmod)
		FROM pg_attribute v JOIN pg_class r ON r.oid = 'inv.%s'::regclass
		JOIN pg_attribute c ON c.attrelid = r.oid AND regexp_replace(c.attname, '[^A-Za-z0-9_]', '_', 'g') = v.attname AND c.attnum > 0
		WHERE v.attrelid = 'oracle.%q'::regclass AND v.attnum > 0 ORDER BY v.attnum`, quoted(table), table)) {
		name, kind, _ := strings.Cut(line, "|")
		mapped, ok := types[kind]
		if !ok {
			t.Fatalf("%s.%s: no table type for %s", table, name, kind)
		}
		want = append(want, name+" "+mapped)
	}
	got := s.columns(t, dialect, table)
	if !slices.Equal(got, want) {
		t.Errorf("%s in %s has the columns\n%s\nwant\n%s", table, dialect, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// load loads a table until its snapshot shows the log up to the ends, by partition.
func (s *stack) load(t *testing.T, dialect, table string, ends map[int32]int64) *readback.Table {
	t.Helper()
	client := &readback.Client{REST: s.gateway.REST, Warehouse: dialect, Namespace: harness.Namespace, HTTP: http.DefaultClient}
	var loaded *readback.Table
	harness.Eventually(t, fmt.Sprintf("%s of %s shows %v", dialect, table, ends), func() error {
		var err error
		if loaded, err = client.Load(t.Context(), harness.TableName(topic(table))); err != nil {
			return err
		}
		current, err := loaded.Snapshot(loaded.Metadata.CurrentSnapshot)
		if err != nil {
			return err
		}
		for p, end := range ends {
			if got := current.Summary[fmt.Sprint("frazil.end.", p)]; got != fmt.Sprint(end) {
				return fmt.Errorf("partition %d ends at %q, want %d", p, got, end)
			}
		}
		return nil
	})
	return loaded
}
