package build

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/parquetio"
)

// Request is one pass over a partition.
type Request struct {
	Table     *Table
	Partition kafkapos.Partition
	// Range is projected.
	Range kafkapos.Range
	// Groups are encoded: by ascending offset, without overlap, none beyond the end of Range. What of them lies
	// below Range is read for them alone.
	Groups []kafkapos.Range
}

// Sink receives a pass. Its errors end the pass and come back as they are.
type Sink interface {
	// Keys takes a batch of the projection. It is valid until the call returns.
	Keys(*Keys) error
	// Bad takes a record that could not be decoded; its event is in a batch too.
	Bad(off kafkapos.Offset, reason string) error
	// RowGroup takes the encoded form of Groups[i]; i ascends. A group without rows is the zero row group.
	RowGroup(i int, rg parquetio.RowGroup) error
}

// Result is what a finished pass saw of Range.
type Result struct {
	LogStart    kafkapos.Offset
	LeaderEpoch kafkapos.LeaderEpoch
	Events      int64
	Bytes       int64 // fetched for Range and, where they were read in the same pass, for groups that begin below it
}

func (r *Request) validate() error {
	if r.Range.Start < 0 || r.Range.End < r.Range.Start {
		return fmt.Errorf("scan %s: %w", r.Range, fault.ErrInvalid)
	}
	last := kafkapos.Offset(0)
	for _, g := range r.Groups {
		if g.Empty() || g.Start < last || g.End > r.Range.End {
			return fmt.Errorf("row group %s in a scan of %s: empty, overlapping, unordered or beyond it: %w", g, r.Range, fault.ErrInvalid)
		}
		last = g.End
	}
	return nil
}

// Scan makes one pass: it projects every event of the range and encodes the row groups meanwhile. Each event of
// Range is fetched once. Errors: those of RowGroup, the sink's, fault.ErrInvalid for a request that contradicts
// itself or a record that the table's schema cannot hold.
func (b *Builder) Scan(ctx context.Context, r Request, sink Sink) (Result, error) {
	if err := r.validate(); err != nil {
		return Result{}, err
	}
	dec, err := r.Table.decoder(r.Partition, b.registry)
	if err != nil {
		return Result{}, err
	}
	s := &scan{b: b, r: &r, sink: sink, dec: dec, group: b.group(r.Table), keys: &Keys{}}
	defer s.group.close()
	// Groups wholly below the range: nothing of the pass is about them.
	for s.next < len(r.Groups) && r.Groups[s.next].End <= r.Range.Start {
		if err := s.below(ctx); err != nil {
			return Result{}, unknownColumns(r.Partition, err)
		}
	}
	pass := r.Range
	if s.next < len(r.Groups) {
		pass.Start = min(pass.Start, r.Groups[s.next].Start)
	}
	res, err := b.read(ctx, r.Table, r.Partition, pass, kafkalog.Visitor{
		Record: func(rec *kafkalog.Record) error { return s.record(ctx, rec) },
		NonRow: func(nr kafkapos.Range) error {
			s.keys.nonRow(nr.Intersect(r.Range))
			return s.flushFull()
		},
	})
	if err != nil {
		return Result{}, unknownColumns(r.Partition, err)
	}
	if err := s.finish(); err != nil {
		return Result{}, err
	}
	return Result{LogStart: res.LogStart, LeaderEpoch: res.LeaderEpoch, Events: s.events, Bytes: res.Bytes}, nil
}

// scan is the state of one pass.
type scan struct {
	b      *Builder
	r      *Request
	sink   Sink
	dec    *decode.Decoder
	group  *group
	next   int // the first group that is not done
	keys   *Keys
	events int64
}

func (s *scan) below(ctx context.Context) error {
	rg, err := s.b.RowGroup(ctx, s.r.Table, s.r.Partition, s.r.Groups[s.next])
	if err != nil {
		return err
	}
	s.next++
	return s.sink.RowGroup(s.next-1, rg)
}

// record decodes a record, into the current group if it lies in it.
func (s *scan) record(ctx context.Context, rec *kafkalog.Record) error {
	if err := s.closeGroups(rec.Offset); err != nil {
		return err
	}
	inside := s.next < len(s.r.Groups) && s.r.Groups[s.next].Contains(rec.Offset)
	dst := s.group.batch
	if !inside {
		dst = nil
	}
	ev, err := s.b.decode(ctx, s.dec, rec, dst)
	if err != nil {
		return err
	}
	if inside {
		if err := s.group.grown(); err != nil {
			return err
		}
	}
	if rec.Offset < s.r.Range.Start {
		return nil
	}
	return s.project(rec.Offset, ev)
}

func (s *scan) project(off kafkapos.Offset, ev decoded) error {
	if ev.Class == layout.NonRow {
		s.keys.nonRow(kafkapos.Range{Start: off, End: off + 1})
		return s.flushFull()
	}
	s.keys.event(off, ev.Event)
	s.events++
	s.b.counters.ScannedEvents.Add(1)
	if ev.Class == layout.Bad {
		if err := s.sink.Bad(off, ev.reason); err != nil {
			return err
		}
	}
	return s.flushFull()
}

func (s *scan) flushFull() error {
	if !s.keys.full() {
		return nil
	}
	return s.flush()
}

func (s *scan) flush() error {
	if s.keys.empty() {
		return nil
	}
	err := s.sink.Keys(s.keys)
	s.keys.reset()
	return err
}

// closeGroups encodes the groups that end at or below off.
func (s *scan) closeGroups(off kafkapos.Offset) error {
	for s.next < len(s.r.Groups) && s.r.Groups[s.next].End <= off {
		rg, err := s.group.encode()
		if err != nil {
			return err
		}
		s.next++
		if err := s.sink.RowGroup(s.next-1, rg); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) finish() error {
	if err := s.closeGroups(s.r.Range.End); err != nil {
		return err
	}
	return s.flush()
}
