package cases

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

// The cases of the log and of dedup on a table of plan lazy, whose history nobody has read when it is loaded.

// newLazyGateway has a topic, and is not started.
func newLazyGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{inprocess.New(t), t}
	g.create()
	g.Config.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{
		ChunkLog2: 4, BlockLog2: 2, Plan: dedup.PlanLazy, OnBadRecord: dedup.BadRecordSkip,
	}}}
	return g
}

// showsLazily checks the rows of a cut that ends at end in the warehouse that lazy tables are in.
func (g *gateway) showsLazily(end int64, want ...string) {
	g.t.Helper()
	table := g.loaded("v2", end)
	if plan := table.Metadata.Properties["frazil.plan"]; plan != dedup.PlanLazy {
		g.t.Errorf("the plan is %q", plan)
	}
	g.rows(table, 0, want, "id", "qty", "note")
}

// C13 on a lazy table: the replayed suffix lies in what was never read.
func TestLazilyAReplayedSuffixConverges(t *testing.T) {
	g := newLazyGateway(t)
	suffix := []record{update(1, 1, "u1a"), update(1, 1, "u1b"), create(2, 2, "c2"), remove(2)}
	g.produce(create(1, 1, "c1"))
	g.produce(suffix...)
	g.produce(suffix...)
	g.Start()
	g.showsLazily(9, "1 1 u1b")
}

// C49 on a lazy table: markers and aborted records are met by the walk down.
func TestLazilyTransactionMarkersAreNoRows(t *testing.T) {
	g := newLazyGateway(t)
	client := g.Client(kgo.TransactionalID("tx"))
	for i, commit := range []bool{true, false, true, false} {
		g.must(client.BeginTransaction())
		g.must(client.ProduceSync(t.Context(), update(1, i, "tx").kafka(), create(10+i, i, "tx").kafka()).FirstErr())
		g.must(client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
	}
	g.produce(create(2, 2, "last"))
	g.Start()
	g.showsLazily(13, "1 2 tx", "10 0 tx", "12 2 tx", "2 2 last")
}

// C53 on a lazy table: what was walked of the old topic, and what was not, is gone.
func TestLazilyARecreatedTopicIsAnotherTable(t *testing.T) {
	g := newLazyGateway(t)
	for i := range 40 {
		g.produce(create(i%7, i, "old"))
	}
	g.Start()
	old := g.loaded("v2", 40)
	_, err := kadm.NewClient(g.Producer).DeleteTopic(t.Context(), topic)
	g.must(err)
	g.Producer.PurgeTopicsFromClient(topic)
	g.create()
	var want []string
	for i := range 41 {
		g.produce(create(i, i, "new"))
		want = append(want, fmt.Sprintf("%d %d new", i, i))
	}
	slices.Sort(want)
	g.showsLazily(41, want...)
	if _, err := old.Rows(t.Context(), 0); err == nil {
		t.Error("the old topic is still read")
	}
}

// C55 on a lazy table: retention passes what nobody has read.
func TestLazilyRetentionCutsTheTable(t *testing.T) {
	g := newLazyGateway(t)
	const n, gone = 60, 23
	for i := range n {
		g.produce(create(i, i, "x"))
	}
	g.Start()
	g.loaded("v2", n)
	g.Stop()
	_, err := kadm.NewClient(g.Producer).DeleteRecords(t.Context(), kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: gone}}})
	g.must(err)
	g.produce(create(100, 1, "after"))
	g.Start()
	table := g.loaded("v2", n+1)
	start := number(t, table.Metadata.Properties["frazil.start.0"])
	if start < gone || start > gone+16 {
		t.Errorf("the table starts at %d, want shortly above %d", start, gone)
	}
	want := []string{"100 1 after"}
	for i := int(start); i < n; i++ {
		want = append(want, fmt.Sprintf("%d %d x", i, i))
	}
	slices.Sort(want)
	g.rows(table, 0, want, "id", "qty", "note")
}

// C57 on a lazy table: increments mark rows of chunks that the walk has not reached; the walk finds the marks.
func TestLazilyMarksOfSeveralIncrementsAddUp(t *testing.T) {
	g := newLazyGateway(t)
	for i := range 40 {
		g.produce(create(i, 0, "old"))
	}
	g.Start()
	g.loaded("v2", 40)
	for i := range 3 {
		g.produce(update(2*i, 1, "new"), update(20+2*i, 1, "new"))
		g.loaded("v2", int64(42+2*i))
	}
	g.Stop()
	g.Start()
	var want []string
	for id := range 40 {
		if id%2 == 0 && (id < 6 || id >= 20 && id < 26) {
			want = append(want, fmt.Sprintf("%d 1 new", id))
		} else {
			want = append(want, fmt.Sprintf("%d 0 old", id))
		}
	}
	slices.Sort(want)
	g.showsLazily(46, want...)
	g.showsLazily(46, want...)
}
