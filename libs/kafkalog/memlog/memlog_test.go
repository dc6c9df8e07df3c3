package memlog_test

import (
	"testing"

	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkalog/memlog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

func TestConformance(t *testing.T) {
	kafkalogtest.Run(t, func(*testing.T) kafkalogtest.Subject {
		c := memlog.New("test-cluster")
		return kafkalogtest.Subject{Door: c, Cluster: commands{c}}
	}, kafkalogtest.Exceptions{})
}

// commands gives a memlog.Cluster the suite's commands.
type commands struct{ c *memlog.Cluster }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (k commands) Create(t testing.TB, topic string, partitions int, compacted bool) {
	_, err := k.c.CreateTopic(topic, partitions)
	check(t, err)
	cfg := memlog.DefaultConfig()
	cfg.Compact, cfg.Delete = compacted, !compacted
	check(t, k.c.SetConfig(topic, cfg))
}

func (k commands) Delete(t testing.TB, topic string) { check(t, k.c.DeleteTopic(topic)) }

func (k commands) Append(t testing.TB, topic string, p kafkapos.Partition, _ kafkalogtest.Codec, recs ...kafkalog.Record) kafkapos.Range {
	rng, err := k.c.Append(topic, p, recs...)
	check(t, err)
	return rng
}

func (k commands) Begin(t testing.TB, topic string, p kafkapos.Partition) kafkalogtest.Txn {
	txn, err := k.c.Begin(topic, p)
	check(t, err)
	return transaction{k, topic, p, txn}
}

func (k commands) Expire(t testing.TB, topic string, p kafkapos.Partition, start kafkapos.Offset) {
	check(t, k.c.Expire(topic, p, start))
}

func (k commands) Compact(t testing.TB, name string, p kafkapos.Partition) {
	topic, err := k.c.Topic(t.Context(), name)
	check(t, err)
	ends, err := k.c.Ends(t.Context(), topic)
	check(t, err)
	check(t, k.c.Compact(name, p, ends[p].LastStable-1, true))
}

func (k commands) Down(testing.TB) { k.c.SetDown(true) }

type transaction struct {
	k     commands
	topic string
	p     kafkapos.Partition
	txn   *memlog.Txn
}

func (x transaction) Again(t testing.TB) kafkalogtest.Txn { return x.k.Begin(t, x.topic, x.p) }

func (x transaction) Append(t testing.TB, recs ...kafkalog.Record) {
	_, err := x.txn.Append(recs...)
	check(t, err)
}

func (x transaction) Commit(t testing.TB) {
	_, err := x.txn.Commit()
	check(t, err)
}

func (x transaction) Abort(t testing.TB) {
	_, err := x.txn.Abort()
	check(t, err)
}
