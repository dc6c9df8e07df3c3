package memlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// kind says what an entry of a log is to a reader under read_committed.
type kind uint8

const (
	data    kind = iota // visible once its transaction, if any, is decided
	aborted             // a record of an aborted transaction
	control             // a transaction marker
)

// entry is one record of a log.
type entry struct {
	offset kafkapos.Offset
	epoch  kafkapos.LeaderEpoch
	kind   kind
	txn    *Txn // of data: nil outside transactions
	record kafkalog.Record
}

// partitionLog is one partition. Entries are never changed in place: what a reader took keeps its meaning.
type partitionLog struct {
	start, end  kafkapos.Offset
	leaderEpoch kafkapos.LeaderEpoch
	offline     bool
	entries     []entry // by ascending offset, within [start, end)
	open        []*Txn  // by ascending first offset
}

func newPartitionLog() *partitionLog { return &partitionLog{} }

// lastStable is the end under read_committed: the first offset of the oldest open transaction, else the end.
func (l *partitionLog) lastStable() kafkapos.Offset {
	for _, t := range l.open {
		if !t.rng.Empty() {
			return t.rng.Start
		}
	}
	return l.end
}

func (l *partitionLog) append(e entry) kafkapos.Offset {
	e.offset, e.epoch = l.end, l.leaderEpoch
	e.record.Offset = l.end
	e.record.Key, e.record.Value = bytes.Clone(e.record.Key), bytes.Clone(e.record.Value)
	e.record.Headers = slices.Clone(e.record.Headers)
	l.entries = append(l.entries, e)
	l.end++
	return e.offset
}

// Append writes records outside any transaction and answers their offsets. The offsets in recs are ignored; keys,
// values and headers are copied.
func (c *Cluster) Append(name string, p kafkapos.Partition, recs ...kafkalog.Record) (kafkapos.Range, error) {
	var rng kafkapos.Range
	err := c.withLog(name, p, func(l *partitionLog) error {
		rng.Start = l.end
		for _, r := range recs {
			l.append(entry{record: r})
		}
		rng.End = l.end
		return nil
	})
	return rng, err
}

// Txn is a transaction of one partition. While it is open, its records and everything after them lie beyond the
// last stable offset.
type Txn struct {
	cluster *Cluster
	topic   string
	p       kafkapos.Partition
	rng     kafkapos.Range // of its records so far, others' between them included
	ended   bool
}

// Begin opens a transaction. It holds the last stable offset back from its first record on.
func (c *Cluster) Begin(name string, p kafkapos.Partition) (*Txn, error) {
	t := &Txn{cluster: c, topic: name, p: p}
	return t, c.withLog(name, p, func(*partitionLog) error { return nil })
}

// Append writes records in the transaction and answers their offsets.
func (t *Txn) Append(recs ...kafkalog.Record) (kafkapos.Range, error) {
	var rng kafkapos.Range
	err := t.cluster.withLog(t.topic, t.p, func(l *partitionLog) error {
		if t.ended {
			return fmt.Errorf("append to an ended transaction: %w", fault.ErrInvalid)
		}
		rng.Start = l.end
		if t.rng.Empty() && len(recs) > 0 {
			t.rng = kafkapos.Range{Start: l.end, End: l.end}
			l.open = append(l.open, t)
		}
		for _, r := range recs {
			l.append(entry{record: r, txn: t})
		}
		t.rng.End, rng.End = l.end, l.end
		return nil
	})
	return rng, err
}

// Commit writes the commit marker: the records become visible. It answers the marker's offset.
func (t *Txn) Commit() (kafkapos.Offset, error) { return t.end(data) }

// Abort writes the abort marker: the records never become visible. It answers the marker's offset.
func (t *Txn) Abort() (kafkapos.Offset, error) { return t.end(aborted) }

func (t *Txn) end(becomes kind) (kafkapos.Offset, error) {
	var marker kafkapos.Offset
	err := t.cluster.withLog(t.topic, t.p, func(l *partitionLog) error {
		if t.ended {
			return fmt.Errorf("end an ended transaction: %w", fault.ErrInvalid)
		}
		t.ended = true
		decided := slices.Clone(l.entries)
		for i := range decided {
			if decided[i].txn == t {
				decided[i].kind, decided[i].txn = becomes, nil
			}
		}
		l.entries = decided
		l.open = slices.DeleteFunc(l.open, func(o *Txn) bool { return o == t })
		marker = l.append(entry{kind: control})
		return nil
	})
	return marker, err
}

// AppendCommitted writes records in a transaction of their own and commits it: the offset after the last record is
// the marker's. It answers the records' offsets.
func (c *Cluster) AppendCommitted(name string, p kafkapos.Partition, recs ...kafkalog.Record) (kafkapos.Range, error) {
	return c.appendTxn(name, p, (*Txn).Commit, recs)
}

// AppendAborted writes records in a transaction of their own and aborts it. It answers the records' offsets.
func (c *Cluster) AppendAborted(name string, p kafkapos.Partition, recs ...kafkalog.Record) (kafkapos.Range, error) {
	return c.appendTxn(name, p, (*Txn).Abort, recs)
}

func (c *Cluster) appendTxn(name string, p kafkapos.Partition, end func(*Txn) (kafkapos.Offset, error), recs []kafkalog.Record) (kafkapos.Range, error) {
	t, err := c.Begin(name, p)
	if err != nil {
		return kafkapos.Range{}, err
	}
	rng, err := t.Append(recs...)
	if err != nil {
		return rng, err
	}
	_, err = end(t)
	return rng, err
}

// Compact does what Kafka's cleaner would do to the offsets below upTo: of each key only the record with the highest
// offset below upTo stays, records without a key and records of aborted transactions go, markers stay. With
// tombstones false, records with a null value go too.
func (c *Cluster) Compact(name string, p kafkapos.Partition, upTo kafkapos.Offset, tombstones bool) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		upTo = min(upTo, l.lastStable())
		newest := map[string]kafkapos.Offset{}
		for _, e := range l.entries {
			if e.offset < upTo && e.kind == data && e.record.Key != nil {
				newest[string(e.record.Key)] = e.offset
			}
		}
		l.keep(func(e entry) bool {
			if e.offset >= upTo || e.kind == control {
				return true
			}
			if e.kind == aborted || e.record.Key == nil || newest[string(e.record.Key)] != e.offset {
				return false
			}
			return tombstones || e.record.Value != nil
		})
		return nil
	})
}

// Drop removes single records: their offsets become gaps.
func (c *Cluster) Drop(name string, p kafkapos.Partition, offsets ...kafkapos.Offset) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		l.keep(func(e entry) bool { return !slices.Contains(offsets, e.offset) })
		return nil
	})
}

// Expire moves the log start to start, as retention and DeleteRecords do.
func (c *Cluster) Expire(name string, p kafkapos.Partition, start kafkapos.Offset) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		if start < l.start || start > l.end {
			return fmt.Errorf("move log start from %d to %d of a log that ends at %d: %w", l.start, start, l.end, fault.ErrInvalid)
		}
		l.start = start
		l.keep(func(e entry) bool { return e.offset >= start })
		return nil
	})
}

// Truncate takes the log back to end, as an unclean leader election does: the leader epoch goes up, and later
// appends re-use the lost offsets.
func (c *Cluster) Truncate(name string, p kafkapos.Partition, end kafkapos.Offset) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		if end < l.start || end > l.end {
			return fmt.Errorf("truncate [%d,%d) to %d: %w", l.start, l.end, end, fault.ErrInvalid)
		}
		l.end = end
		l.leaderEpoch++
		l.keep(func(e entry) bool { return e.offset < end })
		l.open = slices.DeleteFunc(l.open, func(t *Txn) bool { return t.rng.Start >= end })
		return nil
	})
}

// ElectLeader raises the leader epoch and loses nothing.
func (c *Cluster) ElectLeader(name string, p kafkapos.Partition) error {
	return c.withLog(name, p, func(l *partitionLog) error {
		l.leaderEpoch++
		return nil
	})
}

// keep replaces the entries by those that stay.
func (l *partitionLog) keep(stays func(entry) bool) {
	var kept []entry
	for _, e := range l.entries {
		if stays(e) {
			kept = append(kept, e)
		}
	}
	l.entries = kept
}
