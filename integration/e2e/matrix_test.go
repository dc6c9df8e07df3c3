package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
)

// captured is a topic that Debezium wrote.
type captured struct {
	format string // of its records: the prefix of the topic
	table  string
	drop   []int64 // offsets whose values no engine can hold: infinities, 24:00, NaN, years beyond 9999
}

func (c captured) topic() string { return c.format + ".inv." + c.table }

func (c captured) file(t *testing.T) string {
	return filepath.Join(harness.Root(t), "integration", "testdata", "samples", c.format, c.topic()+".jsonl")
}

// servable are the captured topics that become tables.
func servable() []captured {
	var all []captured
	for _, format := range []string{"pgjson", "pgjsonschema", "pgavro"} {
		for _, table := range []string{"customers", "orders", "docs_full", "uniq", "Odd_N_me"} {
			all = append(all, captured{format: format, table: table})
		}
		all = append(all, captured{format: format, table: "all_types", drop: []int64{2, 3}})
	}
	return all
}

// stage is a captured topic with the ends at which it is looked at.
type stage struct {
	captured
	records   []*kgo.Record
	ends      []int64            // three, not descending
	snapshots map[string][]int64 // by dialect: the snapshot of every end
}

func stages(t *testing.T) []*stage {
	var all []*stage
	for _, c := range servable() {
		records := harness.Captured(t, c.file(t), c.drop...)
		n := int64(len(records))
		all = append(all, &stage{captured: c, records: records, ends: []int64{(n + 1) / 2, (3*n + 3) / 4, n}, snapshots: map[string][]int64{}})
	}
	return all
}

// TestEnginesReadWhatTheLogSays replays every captured topic in three parts, with a restart after the first and a crash
// after the second, and has every engine read every cut in every dialect: the exact rows of the fold, by full scan, by
// count and by filter.
func TestEnginesReadWhatTheLogSays(t *testing.T) {
	w := newWorld(t)
	all := stages(t)
	for cut := range 3 {
		added := int64(0)
		for _, s := range all {
			from := int64(0)
			if cut == 0 {
				w.admin.Create(t, s.topic(), 1)
			} else {
				from = s.ends[cut-1]
			}
			if from < s.ends[cut] {
				w.admin.Append(t, s.topic(), 0, s.records[from:s.ends[cut]]...)
			}
			added += s.ends[cut] - from
		}
		for _, s := range all {
			for _, d := range dialects() {
				table := load(t, w.gateway, d, s.topic(), s.ends[cut])
				s.snapshots[d] = append(s.snapshots[d], table.Metadata.CurrentSnapshot)
			}
		}
		// Every start begins with counters at 0: what was published before it is not scanned again.
		if got := w.gateway.Metrics(t)["frazil_dedup_scanned_events_total"]; got != float64(added) {
			t.Errorf("cut %d: %v events were scanned, and %d are new", cut, got, added)
		}
		switch cut {
		case 0:
			w.gateway.Stop(t)
			w.gateway.Start(t)
		case 1:
			w.gateway.Kill()
			w.gateway.Start(t)
		}
	}
	want := oracle(t, all)
	for _, engine := range harness.Engines(t) {
		t.Run(string(engine), func(t *testing.T) {
			answers := harness.Ask(t, engine, catalogs(w.gateway, ""), queries(all))
			for _, s := range all {
				for _, d := range dialects() {
					t.Run(s.topic()+"/"+d, func(t *testing.T) { s.compare(t, d, answers, want[s.topic()]) })
				}
			}
		})
	}
}

func oracle(t *testing.T, all []*stage) map[string]map[int64]harness.Answer {
	var jobs []harness.FoldJob
	for _, s := range all {
		jobs = append(jobs, harness.FoldJob{ID: s.topic(), File: s.file(t), Drop: s.drop, Ends: s.ends})
	}
	return harness.Fold(t, registryDump(t), jobs)
}

// queries asks, for each table, for the current rows, their number, those of the second half, and the rows of each
// earlier cut.
func queries(all []*stage) []harness.Query {
	var qs []harness.Query
	for _, s := range all {
		for _, d := range dialects() {
			q := harness.Query{Catalog: d, Table: harness.Namespace + "." + harness.TableName(s.topic())}
			add := func(what string, change func(*harness.Query)) {
				q := q
				q.ID = s.id(d, what)
				change(&q)
				qs = append(qs, q)
			}
			add("rows", func(*harness.Query) {})
			add("count", func(q *harness.Query) { q.Count = true })
			add("filter", func(q *harness.Query) { q.Where = fmt.Sprintf("kafka_offset >= %d", s.ends[0]) })
			for cut, snapshot := range s.snapshots[d] {
				add(fmt.Sprint("cut", cut), func(q *harness.Query) { q.Snapshot = snapshot })
			}
		}
	}
	return qs
}

func (s *stage) id(dialect, what string) string { return s.topic() + "/" + dialect + "/" + what }

// compare checks all answers for one table.
func (s *stage) compare(t *testing.T, dialect string, answers map[string]harness.Answer, want map[int64]harness.Answer) {
	last := want[s.ends[2]]
	got := answers[s.id(dialect, "rows")]
	sameRows(t, "current", got, last)
	if got.Error == "" && !slices.Equal(got.Columns, last.Columns) {
		t.Errorf("columns %v\nwant %v", got.Columns, last.Columns)
	}
	count := answers[s.id(dialect, "count")]
	if count.Error != "" || count.Count == nil || *count.Count != int64(len(last.Rows)) {
		t.Errorf("count: %v, %s; want %d", count.Count, count.Error, len(last.Rows))
	}
	late := last
	late.Rows = nil
	for i, off := range last.Offsets() {
		var n int64
		if _, err := fmt.Sscan(off, &n); err != nil {
			t.Fatal(err)
		}
		if n >= s.ends[0] {
			late.Rows = append(late.Rows, last.Rows[i])
		}
	}
	sameRows(t, "filtered", answers[s.id(dialect, "filter")], late)
	for cut, end := range s.ends {
		sameRows(t, fmt.Sprintf("cut %d at %d", cut, end), answers[s.id(dialect, fmt.Sprint("cut", cut))], want[end])
	}
}

// sameRows compares rows whatever their order. A column that the oracle does not have yet must be null.
func sameRows(t *testing.T, what string, got, want harness.Answer) {
	t.Helper()
	if got.Error != "" {
		t.Errorf("%s: %s", what, got.Error)
		return
	}
	g, w := spelt(got, want.Columns), spelt(want, want.Columns)
	if !slices.Equal(g, w) {
		t.Errorf("%s: %d rows\n%s\nwant %d\n%s", what, len(g), strings.Join(g, "\n"), len(w), strings.Join(w, "\n"))
	}
}

// spelt writes every row down in the order of the columns, with what it has beyond them if that is not null.
func spelt(a harness.Answer, columns []string) []string {
	rows := []string{}
	for i := range a.Rows {
		ordered := harness.Answer{Columns: slices.Clone(columns), Rows: [][]any{make([]any, len(columns))}}
		for j, name := range a.Columns {
			if at := slices.Index(columns, name); at >= 0 {
				ordered.Rows[0][at] = a.Rows[i][j]
			} else if a.Rows[i][j] != nil {
				ordered.Columns = append(ordered.Columns, name)
				ordered.Rows[0] = append(ordered.Rows[0], a.Rows[i][j])
			}
		}
		rows = append(rows, ordered.Row(0))
	}
	slices.Sort(rows)
	return rows
}
