package cases

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/readback"
)

// C06: both events of a key change carry one source position; nothing may be taken for a duplicate.
func TestKeyChangeLeavesOnlyTheNewKey(t *testing.T) {
	g := newGateway(t)
	d, c := remove(1), create(2, 10, "a")
	d.headers = map[string]string{"__debezium.newkey": key(2)}
	c.headers = map[string]string{"__debezium.oldkey": key(1)}
	tomb := tombstone(1)
	tomb.headers = d.headers
	g.produce(create(1, 10, "a"), d, tomb, c)
	g.shows(4, "2 10 a")
}

// C08: equal times everywhere: the offset decides, and no kind of event outranks another.
func TestReinsertAtTheSameInstantIsThere(t *testing.T) {
	g := newGateway(t)
	g.produce(create(1, 1, "a"), remove(1), create(1, 1, "b"))
	g.shows(3, "1 1 b")
}

// C10: snapshot reads are superseded like inserts; a delete whose before holds only the key still deletes.
func TestSnapshotReadsAreSuperseded(t *testing.T) {
	g := newGateway(t)
	g.produce(snapshotRead(1, 1, "x"), snapshotRead(2, 2, "y"), snapshotRead(3, 3, "z"), update(2, 20, "new"), remove(3))
	g.shows(5, "1 1 x", "2 20 new")
}

// C13: a connector replays a suffix. Every cut is the fold by offset; nothing is suppressed twice.
func TestReplayedSuffixConverges(t *testing.T) {
	g := newGateway(t)
	suffix := []record{update(1, 1, "u1a"), update(1, 1, "u1b"), create(2, 2, "c2"), remove(2)}
	g.produce(create(1, 1, "c1"))
	g.produce(suffix...)
	snapshots := map[int64]int64{5: current(g, 5)}
	g.shows(5, "1 1 u1b")
	want := map[int64][]string{5: {"1 1 u1b"}, 6: {"1 1 u1a"}, 7: {"1 1 u1b"}, 8: {"1 1 u1b", "2 2 c2"}, 9: {"1 1 u1b"}}
	for i, r := range suffix {
		g.produce(r)
		end := int64(6 + i)
		g.shows(end, want[end]...)
		snapshots[end] = current(g, end)
	}
	last := g.loaded("v2", 9)
	for end, id := range snapshots {
		g.rows(last, id, want[end], "id", "qty", "note")
	}
	s, err := last.Snapshot(0)
	g.must(err)
	total, dead := number(t, s.Summary["total-records"]), number(t, s.Summary["total-position-deletes"])
	if total != 7 || dead != 6 { // seven upserts, one of them live
		t.Errorf("%d rows and %d deletes, want 7 and 6", total, dead)
	}
}

func current(g *gateway, end int64) int64 { return g.loaded("v2", end).Metadata.CurrentSnapshot }

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// C14: compaction removed the delete event, only its tombstone is left.
func TestTombstoneAloneDeletes(t *testing.T) {
	g := newGateway(t)
	g.produce(create(1, 1, "a"), create(2, 2, "b"), tombstone(1))
	g.shows(3, "2 2 b")
}

// C14, the rest of it: when nothing is live, the table is empty and no error.
func TestTableOfDeadRowsIsEmpty(t *testing.T) {
	g := newGateway(t)
	g.produce(create(1, 1, "a"), tombstone(1))
	g.shows(2)
}

// C19: rows without a key have no current state.
func TestKeylessTopicIsRefusedWithTheReason(t *testing.T) {
	g := newGateway(t)
	same := envelope("c", "null", row(1, 1, "same"))
	g.produce(record{value: same}, record{value: same}, record{value: envelope("c", "null", row(2, 2, "other"))})
	if m := g.refusal(); !strings.Contains(m, "key") || !strings.Contains(m, topic) {
		t.Errorf("refused with %q, want the topic and that it has no key", m)
	}
}

// C23: a key column that the value lacks is a column of the table, and part of the identity.
func TestKeyOnlyColumnIsInTheTable(t *testing.T) {
	g := newGateway(t)
	rec := func(tenant string, id, qty int) record {
		return record{
			key:   fmt.Sprintf(`{"tenant":%q,"id":%d}`, tenant, id),
			value: envelope("u", "null", fmt.Sprintf(`{"id":%d,"qty":%d}`, id, qty)),
		}
	}
	g.produce(rec("a", 1, 1), rec("b", 1, 2), rec("a", 1, 3))
	for _, w := range warehouses {
		g.rows(g.loaded(w, 3), 0, []string{"a 1 3", "b 1 2"}, "tenant", "id", "qty")
	}
}

// C49: transaction markers take offsets. A topic that ends in markers is read to its end.
func TestTransactionMarkersAreNoRows(t *testing.T) {
	g := newGateway(t)
	client := g.Client(kgo.TransactionalID("tx"))
	transaction := func(commit bool, r record) {
		t.Helper()
		g.must(client.BeginTransaction())
		g.must(client.ProduceSync(t.Context(), r.kafka()).FirstErr())
		g.must(client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
	}
	transaction(true, create(1, 1, "kept"))
	g.shows(2, "1 1 kept")
	transaction(false, update(1, 9, "aborted"))
	transaction(false, create(2, 9, "aborted"))
	g.shows(6, "1 1 kept")
}

// C53: a topic is deleted and made again under the same name. The table is the new content only; what was read of
// the old one is gone in words.
func TestRecreatedTopicIsAnotherTable(t *testing.T) {
	g := newGateway(t)
	for i := range 100 {
		g.produce(create(i, i, "old"))
	}
	old := g.loaded("v2", 100)
	if _, err := old.Rows(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(g.Producer)
	_, err := admin.DeleteTopic(t.Context(), topic)
	g.must(err)
	g.Producer.PurgeTopicsFromClient(topic)
	g.create()
	for i := range 150 {
		g.produce(create(1000+i, i, "new"))
	}
	now := g.loaded("v2", 150)
	if now.Metadata.TableUUID == old.Metadata.TableUUID {
		t.Error("the new topic has the old table's UUID")
	}
	rows, err := now.Rows(t.Context(), 0)
	g.must(err)
	if len(rows) != 150 {
		t.Fatalf("%d rows, want 150", len(rows))
	}
	for _, r := range rows {
		if r["note"] != "new" {
			t.Fatalf("row %v is of the old topic", r)
		}
	}
	_, err = old.Rows(t.Context(), 0)
	var status *readback.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusNotFound || !strings.Contains(status.Body, "created anew") {
		t.Errorf("the old table reads as %v, want 404 and that the topic was created anew", err)
	}
}

// C63: what the manifest says of a file is what is served, for each file of one cut.
func TestManifestSizesAreTheServedSizes(t *testing.T) {
	g := newGateway(t)
	const n = 70
	for i := range n {
		g.produce(create(i%40, i, strings.Repeat("x", i)))
	}
	for _, w := range warehouses {
		table := g.loaded(w, n)
		files, err := table.Files(t.Context(), 0)
		g.must(err)
		total := int64(0)
		for _, f := range files {
			total += f.Rows
			for uri, size := range served(f) {
				checkTail(t, table, uri, size)
			}
		}
		s, err := table.Snapshot(0)
		g.must(err)
		if len(files) < 3 || total != number(t, s.Summary["total-records"]) {
			t.Errorf("%d files with %d rows, the summary says %s", len(files), total, s.Summary["total-records"])
		}
		if _, err := table.Rows(t.Context(), 0); err != nil { // compares every length and count
			t.Error(err)
		}
	}
}

func served(f readback.DataFile) map[string]int64 {
	out := map[string]int64{f.Path: f.Size}
	if f.Deletes != nil && f.Deletes.Format == "PARQUET" {
		out[f.Deletes.Path] = f.Deletes.Size
	}
	return out
}

// checkTail reads the last eight bytes by their absolute position and by a suffix range.
func checkTail(t *testing.T, table *readback.Table, uri string, size int64) {
	t.Helper()
	byPosition, err := table.Object(t.Context(), uri, fmt.Sprintf("bytes=%d-%d", size-8, size-1))
	if err != nil {
		t.Fatal(err)
	}
	bySuffix, err := table.Object(t.Context(), uri, "bytes=-8")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(byPosition, bySuffix) || string(bySuffix[4:]) != "PAR1" || int64(binary.LittleEndian.Uint32(bySuffix)) >= size {
		t.Errorf("%s ends in %q and %q", uri, byPosition, bySuffix)
	}
	if _, err := table.Object(t.Context(), uri, fmt.Sprintf("bytes=%d-", size)); err == nil || !strings.Contains(err.Error(), "InvalidRange") {
		t.Errorf("a range beyond the end answers %v, want InvalidRange", err)
	}
}

// C65: the columns of a position delete file carry the reserved field ids.
func TestPositionDeleteFileHasTheReservedFieldIDs(t *testing.T) {
	g := newGateway(t)
	g.produce(create(1, 1, "a"), create(2, 2, "b"), update(1, 3, "c"))
	table := g.loaded("v2", 3)
	files, err := table.Files(t.Context(), 0)
	g.must(err)
	if len(files) != 1 || files[0].Deletes == nil {
		t.Fatalf("files %+v, want one with deletes", files)
	}
	b, err := table.Object(t.Context(), files[0].Deletes.Path, "")
	g.must(err)
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	g.must(err)
	for name, id := range map[string]int{"file_path": 2147483546, "pos": 2147483545} {
		c := f.Root().Column(name)
		if c == nil || c.ID() != id {
			t.Errorf("column %s is %v, want field id %d", name, c, id)
		}
	}
}

// C67: several updates of one key in one increment, and across a restart.
func TestUpdatesOfOneKeyCollapse(t *testing.T) {
	g := newGateway(t)
	g.produce(create(1, 0, "first"))
	g.shows(1, "1 0 first")
	g.produce(update(1, 1, "a"), update(1, 2, "b"), update(1, 3, "c"))
	g.shows(4, "1 3 c")
	g.Stop()
	g.produce(update(1, 4, "d"), update(1, 5, "e"))
	g.Start()
	g.shows(6, "1 5 e")
}

// C55: retention passes published rows while nobody looks. The table goes on above, from where it says.
func TestRetentionWhileDownCutsTheTable(t *testing.T) {
	g := newGateway(t)
	const n, gone = 60, 23 // in the middle of a chunk
	for i := range n {
		g.produce(create(i%50, i, "x"))
	}
	before := g.loaded("v2", n)
	g.Stop()
	_, err := kadm.NewClient(g.Producer).DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: gone}}})
	g.must(err)
	g.produce(create(100, 1, "after"))
	g.Start()
	for _, w := range warehouses {
		table := g.loaded(w, n+1)
		start := number(t, table.Metadata.Properties["frazil.start.0"])
		if start < gone || start > gone+16 {
			t.Errorf("the table starts at %d, want shortly above %d", start, gone)
		}
		rows, err := table.Rows(t.Context(), 0)
		g.must(err)
		var want []readback.Row
		for i := max(int(start), n-50); i < n; i++ { // the newest event of each key
			want = append(want, readback.Row{"id": i % 50, "qty": i})
		}
		want = append(want, readback.Row{"id": 100, "qty": 1})
		if got, want := texts(rows, "id", "qty"), texts(want, "id", "qty"); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("rows %q, want %q", got, want)
		}
	}
	if _, err := before.Rows(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "NoSuchKey") {
		t.Errorf("the snapshot whose start has passed reads as %v, want NoSuchKey", err)
	}
}

// C57: three increments that each supersede other rows of one chunk: the delete file is their union, and applying
// nothing new changes nothing.
func TestMarksOfSeveralIncrementsAddUp(t *testing.T) {
	g := newGateway(t)
	for i := range 6 {
		g.produce(create(i, 0, "old"))
	}
	g.loaded("v2", 6)
	for i := range int64(3) {
		g.produce(update(int(2*i), 1, "new"))
		g.loaded("v2", 7+i)
	}
	want := []string{"0 1 new", "1 0 old", "2 1 new", "3 0 old", "4 1 new", "5 0 old"}
	g.shows(9, want...)
	a, b := g.loaded("v3", 9), g.loaded("v3", 9)
	if a.MetadataLocation != b.MetadataLocation {
		t.Errorf("two loads without a change: %s and %s", a.MetadataLocation, b.MetadataLocation)
	}
	g.shows(9, want...)
}
