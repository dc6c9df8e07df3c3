// Package kafkalogtest is the conformance suite of kafkalog.Metadata and kafkalog.Reader. It runs on the in-memory log
// and on every adapter, against whatever Kafka the caller commands.
package kafkalogtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Codec names a producer's compression.
type Codec string

// The codecs that Kafka has.
const (
	None   Codec = "none"
	Gzip   Codec = "gzip"
	Snappy Codec = "snappy"
	LZ4    Codec = "lz4"
	Zstd   Codec = "zstd"
)

// Codecs lists all codecs.
func Codecs() []Codec { return []Codec{None, Gzip, Snappy, LZ4, Zstd} }

// Door is what is tested.
type Door interface {
	kafkalog.Metadata
	kafkalog.Reader
}

// Cluster is a Kafka under the test's command. A command that fails fails the test. When a command returns, its effect
// is visible to readers.
type Cluster interface {
	// Create makes a topic whose records are never deleted, or compacted on command.
	Create(t testing.TB, topic string, partitions int, compacted bool)
	// Delete removes a topic.
	Delete(t testing.TB, topic string)
	// Append writes one batch and answers its offsets.
	Append(t testing.TB, topic string, p kafkapos.Partition, codec Codec, recs ...kafkalog.Record) kafkapos.Range
	// Begin opens a transaction.
	Begin(t testing.TB, topic string, p kafkapos.Partition) Txn
	// Expire moves the log start.
	Expire(t testing.TB, topic string, p kafkapos.Partition, start kafkapos.Offset)
	// Compact cleans a compacted topic: of the records before the last one, each key's newest stays.
	Compact(t testing.TB, topic string, p kafkapos.Partition)
	// Down takes the cluster away for good.
	Down(t testing.TB)
}

// Txn is an open transaction of one partition.
type Txn interface {
	// Append writes one batch in the transaction.
	Append(t testing.TB, recs ...kafkalog.Record)
	// Commit makes the records visible. A marker takes the next offset.
	Commit(t testing.TB)
	// Abort gives the records up. A marker takes the next offset.
	Abort(t testing.TB)
	// Again begins the next transaction of the same producer, once this one has ended.
	Again(t testing.TB) Txn
}

// Subject is one implementation and the cluster behind it.
type Subject struct {
	Door    Door
	Cluster Cluster
}

// Exceptions declares what an implementation, or the cluster that it is tested on, cannot do.
type Exceptions struct {
	// HidesNonRow: Visitor.NonRow is never called; control and aborted records look like gaps.
	HidesNonRow bool
	// NoDown is why the cluster cannot be taken away; empty if it can.
	NoDown string
	// NoCompact is why the cluster cannot compact on command; empty if it can.
	NoCompact string
}

// Run runs the suite. start is called once for each case.
func Run(t *testing.T, start func(t *testing.T) Subject, except Exceptions) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *trial)
	}{
		{"records arrive as they were written", recordsAsWritten},
		{"every codec in every sub-range", everyCodec},
		{"a batch above the fetch size", largeBatch},
		{"committed, aborted and control records", transactions},
		{"interleaved transactions", interleaved},
		{"one producer aborts and commits", sameProducer},
		{"a tail of markers ends promptly", markerTail},
		{"an open transaction holds the end back", openTransaction},
		{"below the log start", belowLogStart},
		{"beyond the end", beyondEnd},
		{"an empty range visits nothing", emptyRange},
		{"a re-created topic is another log", recreated},
		{"a deleted topic", deleted},
		{"gaps of a compacted log", compacted},
		{"partitions are apart", partitions},
		{"readers at once", atOnce},
		{"a visitor's error comes back as it is", visitorError},
		{"a caller that has left gets its cause", cancelled},
		{"metadata", metadata},
		{"offsets by time", byTime},
		{"no broker", down},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			c.run(t, &trial{Subject: start(t), except: except})
		})
	}
}

// trial is one case's subject.
type trial struct {
	Subject
	except Exceptions
}

// topic makes a topic and answers how the door sees it.
func (tr *trial) topic(t *testing.T, name string, partitions int) kafkalog.Topic {
	t.Helper()
	tr.Cluster.Create(t, name, partitions, false)
	return tr.describe(t, name)
}

func (tr *trial) describe(t *testing.T, name string) kafkalog.Topic {
	t.Helper()
	topic, err := tr.Door.Topic(t.Context(), name)
	if err != nil {
		t.Fatalf("describe %s: %v", name, err)
	}
	return topic
}

// ends answers the limits of partition 0.
func (tr *trial) ends(t *testing.T, topic kafkalog.Topic) kafkalog.Ends {
	t.Helper()
	ends, err := tr.Door.Ends(t.Context(), topic)
	if err != nil {
		t.Fatalf("ends of %s: %v", topic.Name, err)
	}
	return ends[0]
}

// collect reads a range and writes down what was visited, one line an item.
func (tr *trial) collect(ctx context.Context, topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range) ([]string, kafkalog.Result, error) {
	var seen []string
	res, err := tr.Door.Read(ctx, topic, p, rng, kafkalog.Visitor{
		Record: func(r *kafkalog.Record) error {
			seen = append(seen, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
			return nil
		},
		NonRow: func(r kafkapos.Range) error {
			seen = append(seen, fmt.Sprintf("%s nonrow", r))
			return nil
		},
	})
	return seen, res, err
}

// want reads a range of partition 0 and compares what was visited.
func (tr *trial) want(t *testing.T, topic kafkalog.Topic, start, end kafkapos.Offset, want ...string) {
	t.Helper()
	if tr.except.HidesNonRow {
		want = without(want, "nonrow")
	}
	rng := kafkapos.Range{Start: start, End: end}
	got, _, err := tr.collect(t.Context(), topic, 0, rng)
	if err != nil {
		t.Fatalf("read %s: %v", rng, err)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("read %s:\n%s\nwant:\n%s", rng, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func without(lines []string, suffix string) []string {
	var kept []string
	for _, l := range lines {
		if !strings.HasSuffix(l, suffix) {
			kept = append(kept, l)
		}
	}
	return kept
}

// rec makes a record.
func rec(key, value string) kafkalog.Record {
	return kafkalog.Record{Key: []byte(key), Value: []byte(value), TimestampMs: 1_700_000_000_000}
}
