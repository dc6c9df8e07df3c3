package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one line of a captured topic. A nil Key or Value is Kafka's null.
type Record struct {
	Offset  int64       `json:"offset"`
	TS      int64       `json:"ts"` // milliseconds since the epoch
	Key     *string     `json:"key_b64"`
	Value   *string     `json:"value_b64"`
	Headers [][]*string `json:"headers"` // pairs of name and base64 value
}

// Captured reads a captured topic, without the records at the dropped offsets.
func Captured(t testing.TB, file string, drop ...int64) []*kgo.Record {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, len(raw)+1)
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if slices.Contains(drop, r.Offset) {
			continue
		}
		k := &kgo.Record{Timestamp: time.UnixMilli(r.TS), Key: decode(t, r.Key), Value: decode(t, r.Value)}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: *h[0], Value: decode(t, h[1])})
		}
		records = append(records, k)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return records
}

func decode(t testing.TB, s *string) []byte {
	t.Helper()
	if s == nil {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(*s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Admin commands the topics of a broker. Its methods fail the test when the broker refuses.
type Admin struct {
	kafka *kgo.Client
	admin *kadm.Client
}

// NewAdmin connects to a broker; the end of the test disconnects.
func NewAdmin(t testing.TB, broker Broker) *Admin {
	t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(poll), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(poll))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	return &Admin{kafka: kafka, admin: kadm.NewClient(kafka)}
}

// Create makes a topic that keeps everything, with these settings over it (name, value, name, value, …).
func (a *Admin) Create(t testing.TB, topic string, partitions int, settings ...string) {
	t.Helper()
	// The captured timestamps are old: retention by time would delete the records at once.
	configs := map[string]*string{"retention.ms": kadm.StringPtr("-1")}
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = kadm.StringPtr(settings[i+1])
	}
	resp, err := a.admin.CreateTopic(t.Context(), int32(partitions), 1, configs, topic)
	if err != nil || resp.Err != nil {
		t.Fatalf("create topic %s: %v, %v", topic, err, resp.Err)
	}
	Eventually(t, topic+" has leaders", func() error {
		ends, err := a.admin.ListEndOffsets(t.Context(), topic)
		if err == nil {
			err = ends.Error()
		}
		return err
	})
}

// Delete removes a topic.
func (a *Admin) Delete(t testing.TB, topic string) {
	t.Helper()
	if resp, err := a.admin.DeleteTopic(t.Context(), topic); err != nil || resp.Err != nil {
		t.Fatalf("delete topic %s: %v, %v", topic, err, resp.Err)
	}
	Eventually(t, topic+" is gone", func() error {
		details, err := a.admin.ListTopics(t.Context(), topic)
		if err == nil && details[topic].Err == nil {
			err = fmt.Errorf("it is there")
		}
		return err
	})
	a.kafka.PurgeTopicsFromClient(topic)
}

// Append writes records to one partition and answers the offset after the last.
func (a *Admin) Append(t testing.TB, topic string, partition int32, records ...*kgo.Record) int64 {
	t.Helper()
	for _, r := range records {
		r.Topic, r.Partition = topic, partition
	}
	if err := a.kafka.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("append to %s: %v", topic, err)
	}
	return records[len(records)-1].Offset + 1
}

// Replay makes a topic of one partition that holds the records, at the offsets 0, 1, 2, …
func (a *Admin) Replay(t testing.TB, topic string, records []*kgo.Record) {
	t.Helper()
	a.Create(t, topic, 1)
	if end := a.Append(t, topic, 0, records...); end != int64(len(records)) {
		t.Fatalf("%s ends at %d after %d records", topic, end, len(records))
	}
}

// DeleteRecords moves the log start of partition 0.
func (a *Admin) DeleteRecords(t testing.TB, topic string, below int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, below, -1)
	resp, err := a.admin.DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s below %d: %v", topic, below, err)
	}
}

// awaitBroker waits until a broker answers for itself. alive is an error once it never will.
func awaitBroker(t testing.TB, addr string, alive func() error) {
	t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	Eventually(t, "broker answers", func() error {
		if err := alive(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, err := admin.BrokerMetadata(ctx)
		if err == nil && len(m.Brokers) == 0 {
			err = fmt.Errorf("it knows no broker yet")
		}
		return err
	})
}

// transactionTimeout is below what a broker allows by default, and above any test.
const transactionTimeout = 14 * time.Minute

// AppendTxn writes records to partition 0 in a transaction and commits or aborts it. The marker takes one more offset.
func (a *Admin) AppendTxn(t testing.TB, topic string, commit bool, records ...*kgo.Record) {
	t.Helper()
	a.Open(t, topic, records...)(commit)
}

// Open writes records to partition 0 in a transaction and answers how to end it.
func (a *Admin) Open(t testing.TB, topic string, records ...*kgo.Record) (end func(commit bool)) {
	t.Helper()
	brokers := a.kafka.OptValue(kgo.SeedBrokers).([]string)
	id := fmt.Sprintf("%s-%d", topic, time.Now().UnixNano())
	producer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(id),
		// The broker aborts what is open for longer.
		kgo.TransactionTimeout(transactionTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Topic, r.Partition = topic, 0
	}
	if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatalf("append to %s in a transaction: %v", topic, err)
	}
	return func(commit bool) {
		t.Helper()
		before := a.End(t, topic)
		if err := producer.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
			t.Fatalf("end transaction: %v", err)
		}
		Eventually(t, "the marker is written", func() error {
			if a.End(t, topic) <= before {
				return fmt.Errorf("the log ends at %d", before)
			}
			return nil
		})
	}
}

// End is the end of partition 0, open transactions included.
func (a *Admin) End(t testing.TB, topic string) int64 {
	t.Helper()
	ends, err := a.admin.ListEndOffsets(t.Context(), topic)
	end, ok := ends.Lookup(topic, 0)
	if err != nil || !ok || end.Err != nil {
		t.Fatalf("end of %s: %v, %v", topic, err, end.Err)
	}
	return end.Offset
}
