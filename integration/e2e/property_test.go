package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

// history makes up changes of a table item(id, note) over two partitions and folds them as it goes.
type history struct {
	rng  *rand.Rand
	next int                  // number of the next event: its note
	live [2]map[int]liveEvent // by partition, by id
	ends [2]int64
}

type liveEvent struct {
	offset int64
	note   string
}

func newHistory(seed uint64) *history {
	return &history{rng: rand.New(rand.NewPCG(seed, 0)), live: [2]map[int]liveEvent{{}, {}}}
}

const ids = 60

// batch makes up n events of a partition; a delete is two records, the event and its tombstone.
func (h *history) batch(p, n int) []*kgo.Record {
	var records []*kgo.Record
	add := func(id int, value any) {
		key, _ := json.Marshal(map[string]any{"id": id})
		var body []byte
		if value != nil {
			body, _ = json.Marshal(value)
		}
		records = append(records, &kgo.Record{Key: key, Value: body, Timestamp: time.UnixMilli(1_790_000_000_000 + int64(h.next))})
		h.ends[p]++
	}
	for range n {
		id := 2*h.rng.IntN(ids/2) + p
		h.next++
		_, alive := h.live[p][id]
		if alive && h.rng.IntN(4) == 0 {
			delete(h.live[p], id)
			add(id, map[string]any{"op": "d", "before": map[string]any{"id": id, "note": nil}, "after": nil, "source": map[string]any{}})
			add(id, nil)
			continue
		}
		op := map[bool]string{false: "c", true: "u"}[alive]
		note := fmt.Sprint("event ", h.next)
		h.live[p][id] = liveEvent{h.ends[p], note}
		add(id, map[string]any{"op": op, "before": nil, "after": map[string]any{"id": id, "note": note}, "source": map[string]any{}})
	}
	return records
}

// rows are what a table must show now.
func (h *history) rows() []string {
	var rows []string
	for p := range h.live {
		for id, e := range h.live[p] {
			rows = append(rows, fmt.Sprintf("%d/%d id=%d %s", p, e.offset, id, e.note))
		}
	}
	slices.Sort(rows)
	return rows
}

func read(t *testing.T, table *readback.Table, snapshot int64) []string {
	t.Helper()
	got, err := table.Rows(t.Context(), snapshot)
	if err != nil {
		t.Fatalf("rows of snapshot %d: %v", snapshot, err)
	}
	var rows []string
	for _, r := range got {
		rows = append(rows, fmt.Sprintf("%v/%v id=%v %v", r["kafka_partition"], r["kafka_offset"], r["id"], r["note"]))
	}
	slices.Sort(rows)
	return rows
}

// cut is a published state of the history.
type cut struct {
	snapshots map[string]int64
	rows      []string
}

const small = `
tables:
  db.inv.item: {chunk_log2: 6, block_log2: 4}
`

// TestEveryKeptCutIsTheFoldOfItsLog makes many cuts over many small chunks, through restarts and crashes, and reads each
// of them again after all the others: the rows are those of the fold, and the files of what did not change keep their
// names.
func TestEveryKeptCutIsTheFoldOfItsLog(t *testing.T) {
	const topic = "db.inv.item"
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := newHistory(seed)
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	admin.Create(t, topic, 2)
	f := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), Config: small})
	var cuts []cut
	tables := map[string]*readback.Table{}
	take := func() {
		t.Helper()
		c := cut{snapshots: map[string]int64{}, rows: h.rows()}
		for _, d := range dialects() {
			tables[d] = load(t, f, d, topic, h.ends[0], h.ends[1])
			c.snapshots[d] = tables[d].Metadata.CurrentSnapshot
		}
		cuts = append(cuts, c)
	}
	for i := range 8 {
		for p := range 2 {
			admin.Append(t, topic, int32(p), h.batch(p, 1+h.rng.IntN(80))...)
		}
		take()
		switch i {
		case 2, 5:
			f.Kill()
			f.Start(t)
		case 3:
			f.Stop(t)
			f.Start(t)
		}
	}
	unchanged(t, f, h, admin, topic, tables, take)
	made := f.Metrics(t)
	for _, d := range dialects() {
		for i, c := range cuts {
			if got := read(t, tables[d], c.snapshots[d]); !slices.Equal(got, c.rows) {
				t.Errorf("%s, cut %d of %d: %d rows\n%s\nwant %d\n%s", d, i, len(cuts), len(got), strings.Join(got, "\n"), len(c.rows), strings.Join(c.rows, "\n"))
			}
		}
	}
	engines(t, f, topic, cuts)
	// Scans had encoded all that any of the cuts shows, some of it in processes that are gone.
	for _, counter := range []string{encodedRowGroups, "frazil_materializer_fetched_bytes_total"} {
		if again := f.Metrics(t)[counter] - made[counter]; again != 0 {
			t.Errorf("%s rose by %v while cuts were read", counter, again)
		}
	}
}

const encodedRowGroups = "frazil_materializer_encoded_row_groups_total"

// blocks are the row groups that hold the offsets [from, to): block_log2 is 4.
func blocks(from, to int64) float64 { return float64((to+15)/16 - from/16) }

// unchanged moves one partition only: the other's data and delete files keep their names, and only row groups of what is
// new are encoded.
func unchanged(t *testing.T, f *harness.Frazil, h *history, admin *harness.Admin, topic string, tables map[string]*readback.Table, take func()) {
	t.Helper()
	before := map[string]map[string]bool{}
	for _, d := range dialects() {
		before[d] = names(t.Context(), t, tables[d], 0)
	}
	const ranges = "frazil_dedup_published_ranges_total"
	end, made := h.ends[0], f.Metrics(t)
	admin.Append(t, topic, 0, h.batch(0, 70)...)
	take()
	now := f.Metrics(t)
	// A block that two published ranges share is encoded for each.
	most := blocks(end, h.ends[0]) + now[ranges] - made[ranges] - 1
	if encoded := now[encodedRowGroups] - made[encodedRowGroups]; encoded < 1 || encoded > most {
		t.Errorf("%v row groups were encoded for [%d,%d) of one partition, want 1 to %v", encoded, end, h.ends[0], most)
	}
	for _, d := range dialects() {
		after, kept := names(t.Context(), t, tables[d], 0), 0
		for name := range before[d] {
			if !strings.Contains(name, "/data/1/") && !strings.Contains(name, "/deletes/"+d+"/1/") {
				continue
			}
			if kept++; !after[name] {
				t.Errorf("%s: %s is gone", d, name)
			}
		}
		if kept == 0 {
			t.Errorf("%s: no file of partition 1 among %v", d, before[d])
		}
	}
}

// engines read the current state and the middle cut.
func engines(t *testing.T, f *harness.Frazil, topic string, cuts []cut) {
	t.Helper()
	last, middle := len(cuts)-1, len(cuts)/2
	var queries []harness.Query
	for _, d := range dialects() {
		table := harness.Namespace + "." + harness.TableName(topic)
		queries = append(queries,
			harness.Query{ID: d + " current", Catalog: d, Table: table},
			harness.Query{ID: d + " middle", Catalog: d, Table: table, Snapshot: cuts[middle].snapshots[d]},
			harness.Query{ID: d + " count", Catalog: d, Table: table, Count: true})
	}
	for _, engine := range harness.Engines(t) {
		answers := harness.Ask(t, engine, catalogs(f, ""), queries)
		for _, d := range dialects() {
			for id, want := range map[string][]string{"current": cuts[last].rows, "middle": cuts[middle].rows} {
				a := answers[d+" "+id]
				if got := brief(a); a.Error != "" || !slices.Equal(got, want) {
					t.Errorf("%s %s %s: %s %d rows, want %d", engine, d, id, a.Error, len(got), len(want))
				}
			}
			if a := answers[d+" count"]; a.Count == nil || *a.Count != int64(len(cuts[last].rows)) {
				t.Errorf("%s %s count: %v %s, want %d", engine, d, a.Count, a.Error, len(cuts[last].rows))
			}
		}
	}
}

// brief writes an engine's rows down as read does.
func brief(a harness.Answer) []string {
	at := func(row []any, column string) any { return row[slices.Index(a.Columns, column)] }
	var rows []string
	for _, row := range a.Rows {
		rows = append(rows, fmt.Sprintf("%v/%v id=%v %v", at(row, "kafka_partition"), at(row, "kafka_offset"), at(row, "id"), at(row, "note")))
	}
	slices.Sort(rows)
	return rows
}
