//go:build librdkafka

package confluent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// pollMs is how long one poll waits, so that a caller that leaves is noticed.
const pollMs = 50

// Read implements kafkalog.Reader; Visitor.NonRow is not called. Each read has a consumer of its own.
func (c *Client) Read(ctx context.Context, topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range, v kafkalog.Visitor) (kafkalog.Result, error) {
	res := kafkalog.Result{LogStart: -1, LeaderEpoch: -1}
	if rng.Empty() {
		return res, nil
	}
	fail := func(err error) (kafkalog.Result, error) {
		return res, fmt.Errorf("read %s/%d %s: %w", topic.Name, p, rng, err)
	}
	ends, err := c.Ends(ctx, topic)
	if err != nil {
		return fail(err)
	}
	e, ok := ends[p]
	switch {
	case !ok:
		return fail(fmt.Errorf("topic has no such partition: %w", fault.ErrNotFound))
	case e.Offline:
		return fail(fmt.Errorf("partition has no leader: %w", fault.ErrUnavailable))
	case rng.Start < e.LogStart:
		return fail(fmt.Errorf("log starts at %d: %w", e.LogStart, fault.ErrRetired))
	case rng.End > e.LastStable:
		return fail(fmt.Errorf("last stable offset is %d: %w", e.LastStable, fault.ErrRetired))
	}
	res.LogStart = e.LogStart
	consumer, err := c.consumer(topic.Name, p, rng.Start)
	if err != nil {
		return fail(sorted(ctx, err))
	}
	defer consumer.Close() //nolint:errcheck // it only read
	r := reading{c: c, rng: rng, visit: v.Record, res: &res}
	if err := r.run(ctx, consumer); err != nil {
		return fail(err)
	}
	if r.visitErr != nil {
		return res, r.visitErr
	}
	// librdkafka follows the name: what was read counts only if the name still means the same topic.
	if _, err := c.incarnation(ctx, topic); err != nil {
		return fail(err)
	}
	return res, nil
}

// consumer makes a consumer of one partition from an offset on.
func (c *Client) consumer(topic string, p kafkapos.Partition, start kafkapos.Offset) (*kafka.Consumer, error) {
	conf := kafka.ConfigMap{
		"group.id":                 "frazil-unused", // demanded, though nothing is committed
		"enable.auto.commit":       false,
		"enable.auto.offset.store": false,
		"isolation.level":          "read_committed",
		"auto.offset.reset":        "error",
		"enable.partition.eof":     true,
		"check.crcs":               true,
		"fetch.queue.backoff.ms":   1,
	}
	for k, v := range c.conf {
		conf[k] = v
	}
	consumer, err := kafka.NewConsumer(&conf)
	if err != nil {
		return nil, err
	}
	err = consumer.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: int32(p), Offset: kafka.Offset(start)}})
	if err != nil {
		return nil, errors.Join(err, consumer.Close())
	}
	return consumer, nil
}

// reading is the state of one Read.
type reading struct {
	c        *Client
	rng      kafkapos.Range
	visit    func(*kafkalog.Record) error
	res      *kafkalog.Result
	record   kafkalog.Record
	visitErr error // the visitor's: it is returned as it is
}

func (r *reading) run(ctx context.Context, consumer *kafka.Consumer) error {
	deadline := time.Now().Add(r.c.retryFor)
	for done := false; !done && r.visitErr == nil; {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %s without progress: %w", r.c.retryFor, fault.ErrUnavailable)
		}
		switch ev := consumer.Poll(pollMs).(type) {
		case *kafka.Message:
			if ev.TopicPartition.Error != nil {
				return sorted(ctx, ev.TopicPartition.Error)
			}
			deadline = time.Now().Add(r.c.retryFor)
			done = r.message(ev)
		case kafka.PartitionEOF:
			// The last stable offset: what is before it and was not delivered is no committed record.
			done = kafkapos.Offset(ev.Offset) >= r.rng.End
		case kafka.Error:
			if err := sorted(ctx, ev); !isUnavailable(ev) {
				return err
			}
		}
	}
	return nil
}

// isUnavailable reports whether librdkafka goes on trying by itself.
func isUnavailable(e kafka.Error) bool {
	return !e.IsFatal() && (e.Code() == kafka.ErrTransport || e.Code() == kafka.ErrAllBrokersDown || e.Code() == kafka.ErrResolve || e.IsRetriable())
}

// message visits a record and reports whether the range is finished.
func (r *reading) message(m *kafka.Message) (done bool) {
	off := kafkapos.Offset(m.TopicPartition.Offset)
	if off >= r.rng.End {
		return true
	}
	r.record = kafkalog.Record{Offset: off, Key: m.Key, Value: m.Value}
	if m.TimestampType != kafka.TimestampNotAvailable {
		r.record.TimestampMs = m.Timestamp.UnixMilli()
	}
	for _, h := range m.Headers {
		r.record.Headers = append(r.record.Headers, kafkalog.Header{Name: h.Key, Value: h.Value})
	}
	if m.LeaderEpoch != nil {
		r.res.LeaderEpoch = kafkapos.LeaderEpoch(*m.LeaderEpoch)
	}
	r.res.Bytes += int64(len(m.Key) + len(m.Value))
	r.visitErr = r.visit(&r.record)
	return off+1 >= r.rng.End
}
