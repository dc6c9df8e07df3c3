// Package kafkapos has the positions of a log as types, so that two integers cannot be swapped.
package kafkapos

import (
	"encoding/hex"
	"fmt"
)

// Offset is a Kafka record offset within one partition.
type Offset int64

// Position is a 0-based row ordinal within one data file; it is never an Offset.
type Position int64

// Partition is the number of a topic's partition.
type Partition int32

// LeaderEpoch counts the leaders of a partition; -1 is unknown.
type LeaderEpoch int32

// TopicID is Kafka's id of one incarnation of a topic. A re-created topic has another one.
type TopicID [16]byte

// String is the id in lower-case hexadecimal.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// ParseTopicID takes the 16 bytes of an id.
func ParseTopicID(b []byte) (TopicID, error) {
	var id TopicID
	if len(b) != len(id) {
		return id, fmt.Errorf("topic id of %d bytes, want %d", len(b), len(id))
	}
	copy(id[:], b)
	return id, nil
}

// Range is the offsets [Start, End) of one partition.
type Range struct {
	Start, End Offset
}

// Len is the number of offsets in the range; an inverted range has none.
func (r Range) Len() int64 { return max(0, int64(r.End-r.Start)) }

// Empty reports whether the range holds no offset.
func (r Range) Empty() bool { return r.End <= r.Start }

// Contains reports whether off lies in the range.
func (r Range) Contains(off Offset) bool { return r.Start <= off && off < r.End }

// Intersect is the part that both ranges hold; it may be empty.
func (r Range) Intersect(o Range) Range {
	return Range{max(r.Start, o.Start), min(r.End, o.End)}
}

// String prints [start,end).
func (r Range) String() string { return fmt.Sprintf("[%d,%d)", r.Start, r.End) }
