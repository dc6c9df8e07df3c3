// Package wire commands a Kafka over its protocol, for the conformance suite: a real broker, or kfake.
package wire

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// poll is how often a condition is looked at, and patience how long.
const (
	poll     = 10 * time.Millisecond
	patience = 30 * time.Second
	// transactionTimeout is how long the broker leaves a transaction open: longer than any case takes.
	transactionTimeout = 10 * time.Minute
)

// Cluster implements kafkalogtest.Cluster. The functions do what the protocol has no request for.
type Cluster struct {
	Addrs []string
	// CompactNow cleans all compacted topics and returns when it is done.
	CompactNow func(t testing.TB)
	// Stop takes the cluster away.
	Stop func(t testing.TB)

	kafka *kgo.Client
	admin *kadm.Client
}

var _ kafkalogtest.Cluster = (*Cluster)(nil)

// New connects to the brokers at addrs; the test's end disconnects.
func New(t testing.TB, addrs []string) *Cluster {
	t.Helper()
	c := &Cluster{Addrs: addrs}
	c.kafka = c.client(t)
	c.admin = kadm.NewClient(c.kafka)
	return c
}

func (c *Cluster) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	kafka, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(1<<20), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(poll))...)
	if err != nil {
		t.Fatalf("connect to %v: %v", c.Addrs, err)
	}
	t.Cleanup(kafka.Close)
	return kafka
}

func within(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), patience)
}

// Create implements kafkalogtest.Cluster.
func (c *Cluster) Create(t testing.TB, topic string, partitions int, compacted bool) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	policy := "delete"
	if compacted {
		policy = "compact"
	}
	configs := map[string]*string{
		"cleanup.policy": &policy,
		// The records' timestamps are old: retention by time would delete them at once.
		"retention.ms":              kadm.StringPtr("-1"),
		"segment.ms":                kadm.StringPtr("500"),
		"min.cleanable.dirty.ratio": kadm.StringPtr("0.001"),
		"max.compaction.lag.ms":     kadm.StringPtr("500"),
	}
	resp, err := c.admin.CreateTopic(ctx, int32(partitions), 1, configs, topic)
	if err == nil {
		err = resp.Err
	}
	if err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	c.await(t, "topic "+topic+" has leaders", func() bool {
		details, err := c.admin.ListTopics(ctx, topic)
		if err != nil || details[topic].Err != nil || len(details[topic].Partitions) != partitions || details[topic].ID != resp.ID {
			return false
		}
		ends, err := c.admin.ListEndOffsets(ctx, topic)
		return err == nil && ends.Error() == nil
	})
}

// Delete implements kafkalogtest.Cluster.
func (c *Cluster) Delete(t testing.TB, topic string) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	if resp, err := c.admin.DeleteTopic(ctx, topic); err != nil || resp.Err != nil {
		t.Fatalf("delete %s: %v, %v", topic, err, resp.Err)
	}
	c.await(t, "topic "+topic+" is gone", func() bool {
		details, err := c.admin.ListTopics(ctx, topic)
		return err == nil && details[topic].Err != nil
	})
	c.kafka.PurgeTopicsFromClient(topic)
}

func (c *Cluster) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
	}
}

func compression(codec kafkalogtest.Codec) kgo.CompressionCodec {
	switch codec {
	case kafkalogtest.Gzip:
		return kgo.GzipCompression()
	case kafkalogtest.Snappy:
		return kgo.SnappyCompression()
	case kafkalogtest.LZ4:
		return kgo.Lz4Compression()
	case kafkalogtest.Zstd:
		return kgo.ZstdCompression()
	default:
		return kgo.NoCompression()
	}
}

// Append implements kafkalogtest.Cluster.
func (c *Cluster) Append(t testing.TB, topic string, p kafkapos.Partition, codec kafkalogtest.Codec, recs ...kafkalog.Record) kafkapos.Range {
	t.Helper()
	producer := c.client(t, kgo.ProducerBatchCompression(compression(codec)), kgo.ProducerLinger(poll))
	defer producer.Close()
	return produce(t, producer, topic, p, recs)
}

func produce(t testing.TB, producer *kgo.Client, topic string, p kafkapos.Partition, recs []kafkalog.Record) kafkapos.Range {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	var out []*kgo.Record
	for _, r := range recs {
		k := &kgo.Record{Topic: topic, Partition: int32(p), Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.TimestampMs)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		out = append(out, k)
	}
	if err := producer.ProduceSync(ctx, out...).FirstErr(); err != nil {
		t.Fatalf("produce to %s/%d: %v", topic, p, err)
	}
	return kafkapos.Range{Start: kafkapos.Offset(out[0].Offset), End: kafkapos.Offset(out[len(out)-1].Offset) + 1}
}

// Begin implements kafkalogtest.Cluster.
func (c *Cluster) Begin(t testing.TB, topic string, p kafkapos.Partition) kafkalogtest.Txn {
	t.Helper()
	id := fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	x := &txn{cluster: c, topic: topic, p: p, producer: c.client(t, kgo.TransactionalID(id), kgo.TransactionTimeout(transactionTimeout))}
	if err := x.producer.BeginTransaction(); err != nil {
		t.Fatalf("begin transaction: %v", err)
	}
	return x
}

type txn struct {
	cluster  *Cluster
	topic    string
	p        kafkapos.Partition
	producer *kgo.Client
}

// Append implements kafkalogtest.Txn.
func (x *txn) Append(t testing.TB, recs ...kafkalog.Record) {
	t.Helper()
	produce(t, x.producer, x.topic, x.p, recs)
}

// Commit implements kafkalogtest.Txn.
func (x *txn) Commit(t testing.TB) { t.Helper(); x.end(t, kgo.TryCommit) }

// Abort implements kafkalogtest.Txn.
func (x *txn) Abort(t testing.TB) { t.Helper(); x.end(t, kgo.TryAbort) }

// end ends the transaction. The coordinator writes the marker after it has answered: the end of the log tells.
func (x *txn) end(t testing.TB, how kgo.TransactionEndTry) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	before := x.logEnd(ctx)
	if err := x.producer.EndTransaction(ctx, how); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
	x.cluster.await(t, "marker is written", func() bool { return x.logEnd(ctx) > before })
}

// Again implements kafkalogtest.Txn.
func (x *txn) Again(t testing.TB) kafkalogtest.Txn {
	t.Helper()
	if err := x.producer.BeginTransaction(); err != nil {
		t.Fatalf("begin transaction: %v", err)
	}
	return x
}

func (x *txn) logEnd(ctx context.Context) int64 {
	ends, err := x.cluster.admin.ListEndOffsets(ctx, x.topic)
	end, ok := ends.Lookup(x.topic, int32(x.p))
	if err != nil || !ok || end.Err != nil {
		return -1
	}
	return end.Offset
}

// Expire implements kafkalogtest.Cluster.
func (c *Cluster) Expire(t testing.TB, topic string, p kafkapos.Partition, start kafkapos.Offset) {
	t.Helper()
	ctx, cancel := within(t)
	defer cancel()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, int32(p), int64(start), -1)
	resp, err := c.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s/%d below %d: %v", topic, p, start, err)
	}
}

// Compact implements kafkalogtest.Cluster.
func (c *Cluster) Compact(t testing.TB, _ string, _ kafkapos.Partition) {
	t.Helper()
	c.CompactNow(t)
}

// Down implements kafkalogtest.Cluster.
func (c *Cluster) Down(t testing.TB) {
	t.Helper()
	c.Stop(t)
}
