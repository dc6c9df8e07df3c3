package bench

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
)

// Names of the environment. The package documentation explains them.
const (
	partsVariable   = "FRAZIL_BENCH"
	eventsVariable  = "FRAZIL_BENCH_EVENTS"
	roundsVariable  = "FRAZIL_BENCH_ROUNDS"
	brokerVariable  = "FRAZIL_BENCH_BROKER"
	profileVariable = "FRAZIL_BENCH_PROFILE"
)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(strings.ReplaceAll(text, "_", ""))
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no positive number", variable, text)
	}
	return n
}

// field is what the benchmarks run on: a broker and the topics that were asked for.
type field struct {
	events, rounds int
	broker, kind   string // address, and what it is
	brokerPID      int    // of a broker that was started here
	registry       string // URL
	topics         map[format]*topic
}

// topic is one partition of events.
type topic struct {
	name   string
	format format
	events int
	bytes  int64 // of keys and values
}

func newField(t *testing.T) *field {
	t.Helper()
	f := &field{events: number(t, eventsVariable, 1_000_000), rounds: number(t, roundsVariable, 3), topics: map[format]*topic{}}
	server := httptest.NewServer(registryOf(topicName(formatAvro)))
	t.Cleanup(server.Close)
	f.registry = server.URL
	return f
}

// start starts the broker when it is first needed.
func (f *field) start(t *testing.T) {
	t.Helper()
	switch {
	case f.broker != "":
	case os.Getenv(brokerVariable) != "":
		f.broker, f.kind = os.Getenv(brokerVariable), "the one at "+os.Getenv(brokerVariable)
	default:
		broker := harness.StartKafka(t)
		f.brokerPID = broker.PID()
		f.broker, f.kind = broker.Addr(), "Apache Kafka from its Maven jars, one broker in a process of its own"
	}
}

func topicName(f format) string { return "shop." + string(f) + ".orders" }

// topic writes the events in a format when they are first needed.
func (f *field) topic(t *testing.T, as format) *topic {
	t.Helper()
	if made := f.topics[as]; made != nil {
		return made
	}
	f.start(t)
	made := &topic{name: topicName(as), format: as, events: f.events}
	source := newShop(shopSeed)
	made.bytes = f.fill(t, made.name, f.events, func(rec *kgo.Record) {
		e := source.next()
		rec.Timestamp, rec.Key = time.UnixMicro(e.at), as.appendKey(nil, &e)
		if !e.tombstone {
			rec.Value = as.appendValue(nil, &e)
		}
	})
	f.topics[as] = made
	return made
}

// fill makes a topic of one partition with n records, in zstd batches of about 100 KB, and answers their bytes.
func (f *field) fill(t *testing.T, name string, n int, next func(*kgo.Record)) int64 {
	t.Helper()
	return f.spread(t, name, 1, n, next)
}

// spread does the same with n records in each of several partitions, dealt out in turn.
func (f *field) spread(t *testing.T, name string, partitions, n int, next func(*kgo.Record)) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(name),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(100_000), kgo.ProducerLinger(50*time.Millisecond),
		kgo.MaxBufferedBytes(64<<20), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	resp, err := admin.CreateTopic(t.Context(), int32(partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, name)
	if err != nil || resp.Err != nil {
		t.Fatalf("create topic %s: %v, %v", name, err, resp.Err)
	}
	bytes, failed := int64(0), atomic.Pointer[error]{}
	for i := range n * partitions {
		rec := &kgo.Record{Partition: int32(i % partitions)}
		next(rec)
		bytes += int64(len(rec.Key) + len(rec.Value))
		client.Produce(t.Context(), rec, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	if err := failed.Load(); err != nil {
		t.Fatalf("write %s: %v", name, *err)
	}
	ends, err := admin.ListEndOffsets(t.Context(), name)
	if err != nil || ends.Error() != nil {
		t.Fatalf("end of %s: %v, %v", name, err, ends.Error())
	}
	for p := range partitions {
		if end, _ := ends.Lookup(name, int32(p)); end.Offset != int64(n) {
			t.Fatalf("partition %d of %s ends at %d after %d records", p, name, end.Offset, n)
		}
	}
	return bytes
}

func (t *topic) String() string {
	return fmt.Sprintf("%s: %d events, %.0f bytes each, %.0f MB", t.name, t.events, float64(t.bytes)/float64(t.events), float64(t.bytes)/1e6)
}
