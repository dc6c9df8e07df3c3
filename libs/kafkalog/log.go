// Package kafkalog is the door to Kafka: what a log looks like and how an exact range of it is read.
package kafkalog

import (
	"context"
	"time"

	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Topic is what Kafka says about a topic.
type Topic struct {
	Name       string
	ID         kafkapos.TopicID
	Internal   bool
	Partitions []PartitionInfo // by ascending partition, dense
}

// PartitionInfo is one partition of a topic.
type PartitionInfo struct {
	Partition   kafkapos.Partition
	LeaderEpoch kafkapos.LeaderEpoch // -1 unknown
	Offline     bool                 // no leader
}

// Ends are the visible limits of one partition.
type Ends struct {
	LogStart   kafkapos.Offset
	LastStable kafkapos.Offset // exclusive end under read_committed
	Offline    bool            // no leader answered: the offsets mean nothing
}

// TopicConfig is what matters of a topic's configuration. Known is false when it may not be read.
type TopicConfig struct {
	Known          bool
	Compact        bool  // "compact" is in cleanup.policy
	Delete         bool  // "delete" is in cleanup.policy
	RetentionMs    int64 // -1 = unlimited
	RetentionBytes int64 // -1 = unlimited
	SegmentBytes   int64
}

// Metadata answers what exists. Safe for concurrent use. Errors: fault.ErrNotFound (no such topic),
// fault.ErrUnavailable (no broker answered), fault.ErrDenied.
type Metadata interface {
	ClusterID(ctx context.Context) (string, error)
	// Topics lists all topics, sorted by name.
	Topics(ctx context.Context) ([]Topic, error)
	// Topic describes one topic.
	Topic(ctx context.Context, name string) (Topic, error)
	// Ends answers the limits of every partition of a topic. If the topic is not the incarnation that the caller
	// knows by its id, the error is of kind fault.ErrRetired.
	Ends(ctx context.Context, topic Topic) (map[kafkapos.Partition]Ends, error)
	// Config answers a topic's configuration.
	Config(ctx context.Context, name string) (TopicConfig, error)
}

// TimeIndex is what a door has beside Metadata that can find offsets by time. Safe for concurrent use. Errors as of
// Metadata.Ends.
type TimeIndex interface {
	// OffsetsAt answers, by partition, an offset below which every event is older than at, at a precision of one
	// millisecond; -1: every event of the log is. A partition that does not answer is left out.
	OffsetsAt(ctx context.Context, topic Topic, at time.Time) (map[kafkapos.Partition]kafkapos.Offset, error)
}

// Record is one committed data record. Key, Value and Headers alias the reader's buffers: they are valid until
// the visitor returns. A nil Key or Value is Kafka's null.
type Record struct {
	Offset      kafkapos.Offset
	TimestampMs int64
	Key, Value  []byte
	Headers     []Header
}

// Header is one record header.
type Header struct {
	Name  string
	Value []byte
}

// Visitor receives a range in ascending offset order.
type Visitor struct {
	// Record is called for each committed data record of the range.
	Record func(*Record) error
	// NonRow is called for each maximal run of offsets that are control records or belong to aborted
	// transactions. It may be nil. Offsets that neither call mentions are gaps.
	NonRow func(kafkapos.Range) error
}

// Result is what a finished read saw.
type Result struct {
	LogStart    kafkapos.Offset      // -1 if the range was empty
	LeaderEpoch kafkapos.LeaderEpoch // of the last batch read, -1 if none
	Bytes       int64                // of record batches as they came from the broker
}

// Reader reads exact ranges. Safe for concurrent use.
type Reader interface {
	// Read visits [rng.Start, rng.End) of a partition under read_committed and returns when the position has
	// reached rng.End, not when a record at its end was seen. The visitor's error ends the read and is
	// returned as it is. Errors: fault.ErrRetired (the range begins below the log start, lies beyond the last
	// stable offset, or the topic id is another one), fault.ErrUnavailable, fault.ErrDenied,
	// fault.ErrCorrupt (a batch whose CRC does not match).
	Read(ctx context.Context, topic Topic, p kafkapos.Partition, rng kafkapos.Range, v Visitor) (Result, error)
}
