package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
)

// event makes a record of a case's notation over a table item(id, qty, note):
//
//	c 1 10 a    insert     u 1 11 b    update     r 1 10 a    read by a snapshot
//	d 1         delete     T 1         tombstone
//
// All carry the same source position and time: only the offset may decide.
func event(t *testing.T, notation string) *kgo.Record {
	t.Helper()
	words := strings.Fields(notation)
	id, err := strconv.Atoi(words[1])
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]any{"ts_ms": 1_790_000_000_000, "lsn": 42, "table": "item"}
	r := &kgo.Record{Timestamp: time.UnixMilli(1_790_000_000_000), Key: text(t, map[string]any{"id": id})}
	switch words[0] {
	case "T":
	case "d":
		r.Value = text(t, map[string]any{"op": "d", "before": map[string]any{"id": id, "qty": nil, "note": nil}, "after": nil, "source": source})
	default:
		qty, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatal(err)
		}
		after := map[string]any{"id": id, "qty": qty, "note": words[3]}
		r.Value = text(t, map[string]any{"op": words[0], "before": nil, "after": after, "source": source})
	}
	return r
}

func events(t *testing.T, notation ...string) []*kgo.Record {
	t.Helper()
	var all []*kgo.Record
	for _, n := range notation {
		all = append(all, event(t, n))
	}
	return all
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// small case: a topic, how it is filled, and what its table must show: "offset id qty note".
type smallCase struct {
	topic string
	fill  func(t *testing.T, w *world, topic string)
	end   int64
	want  []string
}

func appending(notation ...string) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, topic string) { w.admin.Append(t, topic, 0, events(t, notation...)...) }
}

func smallCases() []smallCase {
	return []smallCase{
		// C06: a changed key is a delete and an insert at one source position.
		{"c06.key.change", appending("c 1 10 a", "d 1", "T 1", "c 2 10 a"), 4, []string{"3 2 10 a"}},
		// C08: at equal times the offset decides; there is no order of operations.
		{"c08.equal.times", appending("c 1 10 a", "d 1", "c 1 10 b"), 3, []string{"2 1 10 b"}},
		// C10: rows of a snapshot are superseded like any other.
		{"c10.snapshot", appending("r 1 1 a", "r 2 2 a", "r 3 3 a", "u 2 2 b", "d 3"), 5, []string{"0 1 1 a", "3 2 2 b"}},
		// C13: a connector that replays after a crash.
		{"c13.replay", appending("c 1 1 a", "u 1 2 a", "u 1 3 b", "c 2 1 a", "d 2", "u 1 2 a", "u 1 3 b", "c 2 1 a", "d 2"), 9, []string{"6 1 3 b"}},
		// C14: the tombstone is all that is left of a delete.
		{"c14.only.tombstone", appending("c 1 1 a", "c 2 1 a", "T 1"), 3, []string{"1 2 1 a"}},
		// C67: one key over and over.
		{"c67.same.key", appending("u 1 1 a", "u 1 2 a", "u 1 3 b"), 3, []string{"2 1 3 b"}},
		{"everything.deleted", appending("c 1 1 a", "c 2 1 a", "d 1", "T 1", "d 2", "T 2"), 6, nil},
		// C49: markers end the log; what was aborted never shows.
		{"c49.transactions", func(t *testing.T, w *world, topic string) {
			w.admin.AppendTxn(t, topic, true, events(t, "c 1 1 a")...)             // 0, marker 1
			w.admin.AppendTxn(t, topic, false, events(t, "u 1 2 b", "c 2 1 x")...) // 2-3, marker 4
			w.admin.Append(t, topic, 0, events(t, "c 3 1 a")...)                   // 5
			w.admin.AppendTxn(t, topic, false, events(t, "d 3", "T 3", "d 1")...)  // 6-8, marker 9
			w.admin.AppendTxn(t, topic, false, events(t, "c 4 1 never")...)        // 10, marker 11
		}, 12, []string{"0 1 1 a", "5 3 1 a"}},
		// C49: the end is the last stable offset, however much was written after it.
		{"c49.open.transaction", func(t *testing.T, w *world, topic string) {
			w.admin.Append(t, topic, 0, events(t, "c 1 1 a")...)
			w.admin.Open(t, topic, events(t, "u 1 2 b")...)
			w.admin.Append(t, topic, 0, events(t, "c 2 1 a")...)
		}, 1, []string{"0 1 1 a"}},
		// C60: three row groups, deletes in the second and third; the filter of the test prunes the first.
		{"c60.row.groups", appending(threeGroups()...), 22, []string{
			"0 0 0 a", "1 1 1 a", "2 2 2 a", "3 3 3 a", "4 4 4 a", "5 5 5 a", "6 6 6 a", "7 7 7 a", "8 8 8 a", "10 10 10 a", "11 11 11 a", "12 12 12 a",
			"13 13 13 a", "14 14 14 a", "15 15 15 a", "17 17 17 a", "18 18 18 a", "20 9 0 b", "21 16 0 b"}},
	}
}

// threeGroups inserts 0…19 and then changes 9 and 16 and deletes nothing of the first eight.
func threeGroups() []string {
	var all []string
	for i := range 19 {
		all = append(all, fmt.Sprintf("c %d %d a", i, i))
	}
	return append(all, "T 99", "u 9 0 b", "u 16 0 b")
}

// smallBlocks makes row groups of four offsets: a file has several.
func smallBlocks(cases []smallCase) string {
	conf := "tables:\n"
	for _, c := range cases {
		conf += fmt.Sprintf("  %s: {chunk_log2: 6, block_log2: 4}\n", c.topic)
	}
	return conf
}

// TestSmallCases has every engine read each case's table, in full and behind a filter that prunes its first row group.
func TestSmallCases(t *testing.T) {
	cases := smallCases()
	w := &world{broker: harness.StartBroker(t)}
	w.admin = harness.NewAdmin(t, w.broker)
	for _, c := range cases {
		w.admin.Create(t, c.topic, 1)
		c.fill(t, w, c.topic)
	}
	w.gateway = harness.StartFrazil(t, harness.Options{Brokers: w.broker.Addr(), Config: smallBlocks(cases)})
	var queries []harness.Query
	for _, c := range cases {
		for _, d := range dialects() {
			load(t, w.gateway, d, c.topic, c.end)
			table := harness.Namespace + "." + harness.TableName(c.topic)
			queries = append(queries, harness.Query{ID: c.topic + d, Catalog: d, Table: table},
				harness.Query{ID: c.topic + d + "late", Catalog: d, Table: table, Where: "kafka_offset >= 16"})
		}
	}
	for _, engine := range harness.Engines(t) {
		answers := harness.Ask(t, engine, catalogs(w.gateway, ""), queries)
		for _, c := range cases {
			for _, d := range dialects() {
				late := slices.DeleteFunc(slices.Clone(c.want), func(row string) bool {
					offset, err := strconv.Atoi(strings.Fields(row)[0])
					return err != nil || offset < 16
				})
				for suffix, want := range map[string][]string{"": c.want, "late": late} {
					a := answers[c.topic+d+suffix]
					if got := items(a); a.Error != "" || !slices.Equal(got, want) {
						t.Errorf("%s %s %s %s: %s %q, want %q", engine, c.topic, d, suffix, a.Error, got, want)
					}
				}
			}
		}
	}
}

// items writes rows down as the cases do, by ascending offset.
func items(a harness.Answer) []string {
	at := func(row []any, column string) any { return row[slices.Index(a.Columns, column)] }
	var rows []string
	for _, row := range a.Rows {
		rows = append(rows, fmt.Sprintf("%v %v %v %v", at(row, "kafka_offset"), at(row, "id"), at(row, "qty"), at(row, "note")))
	}
	slices.SortFunc(rows, func(a, b string) int {
		x, _ := strconv.Atoi(strings.Fields(a)[0])
		y, _ := strconv.Atoi(strings.Fields(b)[0])
		return x - y
	})
	return rows
}

// TestAColumnThatOnlyTheKeyHas (C23): it is in the table, and part of the identity.
func TestAColumnThatOnlyTheKeyHas(t *testing.T) {
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	admin.Create(t, "keyonly", 1)
	put := func(tenant string, qty int) *kgo.Record {
		after := map[string]any{"id": 1, "qty": qty}
		return &kgo.Record{Key: text(t, map[string]any{"tenant": tenant, "id": 1}), Value: text(t, map[string]any{"op": "c", "before": nil, "after": after, "source": map[string]any{}})}
	}
	admin.Append(t, "keyonly", 0, put("north", 1), put("south", 2), put("north", 3))
	f := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr()})
	for _, d := range dialects() {
		rows, err := load(t, f, d, "keyonly", 3).Rows(t.Context(), 0)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%v %v %v", r["tenant"], r["id"], r["qty"]))
		}
		slices.Sort(got)
		if want := []string{"north 1 3", "south 1 2"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", d, got, err, want)
		}
	}
}

// TestRetentionWhileTheGatewayIsAway (C55): the table goes on from where the log now starts, and says from where.
func TestRetentionWhileTheGatewayIsAway(t *testing.T) {
	const topic, n, start = "retained", 400, 163
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	admin.Create(t, topic, 1)
	var all []*kgo.Record
	for i := range n {
		all = append(all, event(t, fmt.Sprintf("c %d %d a", i, i)))
	}
	admin.Append(t, topic, 0, all...)
	f := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), Config: "tables:\n  retained: {chunk_log2: 6, block_log2: 4}\n"})
	load(t, f, "v2", topic, n)
	f.Stop(t)
	admin.DeleteRecords(t, topic, start)
	admin.Append(t, topic, 0, events(t, "u 170 0 b", "d 200")...)
	f.Start(t)
	for _, d := range dialects() {
		table := load(t, f, d, topic, n+2)
		from, err := strconv.Atoi(table.Metadata.Properties["frazil.start.0"])
		if err != nil || from < start {
			t.Fatalf("%s: the table starts at %q, and the log at %d", d, table.Metadata.Properties["frazil.start.0"], start)
		}
		var want []string
		for i := from; i < n; i++ {
			if i != 170 && i != 200 {
				want = append(want, fmt.Sprintf("%d %d %d a", i, i, i))
			}
		}
		want = append(want, fmt.Sprintf("%d 170 0 b", n))
		rows, err := table.Rows(t.Context(), 0)
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%v %v %v %v", r["kafka_offset"], r["id"], r["qty"], r["note"]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s from %d: %d rows, %v; want %d", d, from, len(got), err, len(want))
		}
	}
}
