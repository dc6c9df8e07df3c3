package memlog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// recordOverhead is what one record adds to Result.Bytes beside its key, value and headers, in bytes.
const recordOverhead = 8

// poison overwrites a record's bytes after the visitor has returned, so that a visitor that keeps them is found out.
const poison = 0xa5

// Read implements kafkalog.Reader. What it visits is the log as it was when Read was called.
func (c *Cluster) Read(ctx context.Context, topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range, v kafkalog.Visitor) (kafkalog.Result, error) {
	res := kafkalog.Result{LogStart: -1, LeaderEpoch: -1}
	entries, start, err := c.take(ctx, topic, p, rng)
	if err != nil {
		return res, fmt.Errorf("read %s/%d %s: %w", topic.Name, p, rng, err)
	}
	res.LogStart = start
	lent := lender{}
	var run kafkapos.Range // of non-row offsets, not yet reported
	for _, e := range entries {
		if err := context.Cause(ctx); err != nil {
			return res, fmt.Errorf("read %s/%d %s: %w", topic.Name, p, rng, err)
		}
		res.LeaderEpoch = e.epoch
		res.Bytes += int64(recordOverhead + len(e.record.Key) + len(e.record.Value))
		if e.kind != data {
			if run.End != e.offset {
				if err := report(v, run); err != nil {
					return res, err
				}
				run = kafkapos.Range{Start: e.offset, End: e.offset}
			}
			run.End++
			continue
		}
		if err := report(v, run); err != nil {
			return res, err
		}
		run = kafkapos.Range{}
		if err := v.Record(lent.lend(e.record)); err != nil {
			return res, err
		}
		lent.takeBack()
	}
	return res, report(v, run)
}

// take checks the range and cuts it out of the log.
func (c *Cluster) take(ctx context.Context, topic kafkalog.Topic, p kafkapos.Partition, rng kafkapos.Range) ([]entry, kafkapos.Offset, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.incarnation(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	if int(p) < 0 || int(p) >= len(t.logs) {
		return nil, 0, fmt.Errorf("no such partition: %w", fault.ErrNotFound)
	}
	l := t.logs[p]
	if l.offline {
		return nil, 0, fmt.Errorf("partition has no leader: %w", fault.ErrUnavailable)
	}
	if rng.Empty() {
		return nil, -1, nil
	}
	if rng.Start < l.start {
		return nil, 0, fmt.Errorf("log starts at %d: %w", l.start, fault.ErrRetired)
	}
	if rng.End > l.lastStable() {
		return nil, 0, fmt.Errorf("last stable offset is %d: %w", l.lastStable(), fault.ErrRetired)
	}
	taken := l.entries[l.indexOf(rng.Start):l.indexOf(rng.End)]
	return taken, l.start, nil
}

// indexOf is the index of the first entry at or above off.
func (l *partitionLog) indexOf(off kafkapos.Offset) int {
	i, _ := slices.BinarySearchFunc(l.entries, off, func(e entry, off kafkapos.Offset) int { return cmp.Compare(e.offset, off) })
	return i
}

// report hands over a run of non-row offsets, if there is one and somebody wants it.
func report(v kafkalog.Visitor, run kafkapos.Range) error {
	if run.Empty() || v.NonRow == nil {
		return nil
	}
	return v.NonRow(run)
}

// lender owns the buffers that a visited record aliases.
type lender struct {
	record  kafkalog.Record
	headers []kafkalog.Header
	bytes   []byte
}

// lend copies r into the lender's buffers.
func (l *lender) lend(r kafkalog.Record) *kafkalog.Record {
	need := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		need += len(h.Value)
	}
	l.bytes = slices.Grow(l.bytes[:0], need)
	l.headers = l.headers[:0]
	for _, h := range r.Headers {
		l.headers = append(l.headers, kafkalog.Header{Name: h.Name, Value: l.copy(h.Value)})
	}
	l.record = kafkalog.Record{
		Offset: r.Offset, TimestampMs: r.TimestampMs,
		Key: l.copy(r.Key), Value: l.copy(r.Value), Headers: l.headers,
	}
	return &l.record
}

// copy appends b to the buffer, which has room for it; nil stays nil.
func (l *lender) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	at := len(l.bytes)
	l.bytes = append(l.bytes, b...)
	return l.bytes[at:len(l.bytes):len(l.bytes)]
}

// takeBack spoils what was lent.
func (l *lender) takeBack() {
	for i := range l.bytes {
		l.bytes[i] = poison
	}
	clear(l.headers)
	l.record = kafkalog.Record{Offset: -1}
}
