package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/readback"
)

// C49, the rest of it: what an open transaction has written is not in the table, nor is anything behind it: the cut ends
// at the last stable offset, and follows it when the transaction ends, whichever way.
func TestAnOpenTransactionHoldsTheEnd(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			g := newGateway(t)
			g.produce(create(1, 1, "before"))
			g.shows(1, "1 1 before")
			client := g.Client(kgo.TransactionalID("tx"))
			g.must(client.BeginTransaction())
			g.must(client.ProduceSync(t.Context(), update(1, 2, "open").kafka(), create(2, 2, "open").kafka()).FirstErr())
			g.produce(create(3, 3, "behind"))
			g.shows(1, "1 1 before")
			g.must(client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
			if commit {
				g.shows(5, "1 2 open", "2 2 open", "3 3 behind")
			} else {
				g.shows(5, "1 1 before", "3 3 behind")
			}
		})
	}
}

// C53, the rest of it: the new topic reaches the same offsets as the old one in the same chunks, across a restart. No
// cached block, run or mark of the old one is used.
func TestRecreatedTopicWithTheSameOffsets(t *testing.T) {
	g := newGateway(t)
	for i := range 40 {
		g.produce(create(i%7, i, "old"))
	}
	old := g.loaded("v2", 40)
	if _, err := old.Rows(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	g.Stop()
	_, err := kadm.NewClient(g.Producer).DeleteTopic(t.Context(), topic)
	g.must(err)
	g.Producer.PurgeTopicsFromClient(topic)
	g.create()
	var want []string
	for i := range 40 {
		g.produce(create(i, i, "new"))
		want = append(want, fmt.Sprintf("%d %d new", i, i))
	}
	slices.Sort(want)
	g.Start()
	g.shows(40, want...)
	if g.loaded("v2", 40).Metadata.TableUUID == old.Metadata.TableUUID {
		t.Error("the new topic has the old table's UUID")
	}
	if _, err := old.Rows(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "NoSuchKey") {
		t.Errorf("the old table reads as %v, want NoSuchKey", err)
	}
}

// C55, the rest of it: the file of the chunk that retention has cut has another name, and begins at the start that the
// table says; loads that follow go on without an error, up to the end.
func TestTheCutChunkHasAnotherName(t *testing.T) {
	g := newGateway(t)
	const n, gone = 60, 23
	for i := range n {
		g.produce(create(i, i, "x"))
	}
	names := func(table *readback.Table) map[string]readback.DataFile {
		files, err := table.Files(t.Context(), 0)
		g.must(err)
		out := map[string]readback.DataFile{}
		for _, f := range files {
			out[f.Path] = f
		}
		return out
	}
	was := names(g.loaded("v2", n))
	g.Stop()
	_, err := kadm.NewClient(g.Producer).DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: gone}}})
	g.must(err)
	g.Start()
	for i := range 3 { // no load is stuck at the place where records are gone
		g.produce(create(100+i, i, "after"))
		table := g.loaded("v2", int64(n+1+i))
		start := number(t, table.Metadata.Properties["frazil.start.0"])
		kept, cut := 0, 0
		for path := range names(table) {
			if _, same := was[path]; same {
				kept++
			}
			if strings.Contains(path, fmt.Sprintf("/data/0/%d-", start)) {
				cut++
			}
		}
		if start%16 != 0 && cut != 1 || kept == 0 {
			t.Errorf("start %d: %d files begin there, %d of %d are as before", start, cut, kept, len(was))
		}
		rows, err := table.Rows(t.Context(), 0)
		g.must(err)
		if want := n - int(start) + 1 + i; len(rows) != want {
			t.Errorf("%d rows, want %d", len(rows), want)
		}
	}
}

// C57, the rest of it: the marks of increments add up across restarts, folding and both dialects, over several chunks,
// and an increment that only repeats what the last one said marks nothing twice.
func TestMarksAddUpAcrossRestarts(t *testing.T) {
	g := newGateway(t)
	for i := range 40 {
		g.produce(create(i, 0, "old"))
	}
	g.loaded("v2", 40)
	for i := range 4 {
		for id := i; id < 40; id += 8 {
			g.produce(update(id, 1, "new"))
		}
		g.loaded("v2", int64(45+5*i))
		if i%2 == 1 {
			g.Stop()
			g.Start()
		}
	}
	var want []string
	for id := range 40 {
		if id%8 < 4 {
			want = append(want, fmt.Sprintf("%d 1 new", id))
		} else {
			want = append(want, fmt.Sprintf("%d 0 old", id))
		}
	}
	slices.Sort(want)
	g.shows(60, want...)
	for range 2 {
		g.produce(update(3, 1, "new"), update(11, 1, "new"))
	}
	g.shows(64, want...)
	s, err := g.loaded("v2", 64).Snapshot(0)
	g.must(err)
	rows, dead := number(t, s.Summary["total-records"]), number(t, s.Summary["total-position-deletes"])
	if rows-dead != 40 {
		t.Errorf("%d rows and %d deletes, want 40 live", rows, dead)
	}
}
