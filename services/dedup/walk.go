package dedup

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/render"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// walkState is what one walk of a lazy table's log keeps between its steps.
type walkState struct {
	ahead   *advance.Ahead
	checked bool // runs were read whole in this walk
}

func (w *walkState) close() { w.ahead.Close() }

// passed waits until everything that a room's file and its delete files are made of is published.
func (s *Service) passed(ctx context.Context, rec *state.Record, d objectname.DataFile) error {
	head, err := s.reachable(ctx, rec, d)
	if err != nil || head.Frontier <= d.Range.Start {
		return err
	}
	return s.descents.await(ctx, state.Log{Epoch: rec.Epoch, Partition: d.Partition}, d.Range.Start)
}

// reachable answers the head of the log of a room that was issued and that Kafka still has the events of.
func (s *Service) reachable(ctx context.Context, rec *state.Record, d objectname.DataFile) (*state.Head, error) {
	head, _, err := s.store.Head(ctx, state.Log{Epoch: rec.Epoch, Partition: d.Partition})
	switch {
	case errors.Is(err, fault.ErrNotFound), err == nil && d.Range.End > head.End,
		rec.ChunkLog2 > 0 && !within(d.Range, layout.Chunk(d.Range.Start, rec.ChunkLog2)):
		return nil, fmt.Errorf("data file %s of partition %d: %w: nothing like it is published", d.Range, d.Partition, fault.ErrNotFound)
	case err == nil && d.Range.Start < head.LogStart:
		return nil, fmt.Errorf("data file %s of partition %d: Kafka has removed everything below offset %d: %w",
			d.Range, d.Partition, head.LogStart, fault.ErrRetired)
	}
	return head, err
}

// roomDeletesSize is the size of a room's delete file. It was stated before anything was read: it can be said without
// reading.
func (s *Service) roomDeletesSize(ctx context.Context, rec *state.Record, d objectname.Deletes) (int64, error) {
	head, err := s.reachable(ctx, rec, d.Data)
	if err != nil {
		return 0, err
	}
	if d.E > head.End {
		return 0, fmt.Errorf("delete file of %s at %d: %w: only %d offsets are scanned", d.Data.Range, d.E, fault.ErrNotFound, head.End)
	}
	return s.deletes.RoomDeletesSize(d.Data)
}

func within(r, outer kafkapos.Range) bool { return r.Start >= outer.Start && r.End <= outer.End }

// walkStep walks the next piece of a lazy table's log. It holds a slot of the walks while it works; nobody who waits
// for it does.
func (s *Service) walkStep(ctx context.Context, d *descent, to kafkapos.Offset) (frontier kafkapos.Offset, err error) {
	select {
	case s.walks <- struct{}{}:
	case <-ctx.Done():
		return math.MaxInt64, context.Cause(ctx)
	}
	defer func() { <-s.walks }()
	if d.walk.ahead == nil {
		d.walk.ahead = advance.NewAhead(s.walks)
	}
	rec, err := s.resolve(ctx, d.log.Epoch)
	if err != nil {
		return math.MaxInt64, err
	}
	v, err := s.store.View(ctx, d.log)
	if err != nil {
		return math.MaxInt64, err
	}
	if v.Head.Frontier <= to {
		return v.Head.Frontier, nil // another replica has been there
	}
	spec, err := s.walkSpec(ctx, rec, v)
	if err != nil {
		return v.Head.Frontier, err
	}
	err = s.walkPiece(ctx, d, rec, spec, v, to)
	if errors.Is(err, fault.ErrCorrupt) && !d.walk.checked {
		// A damaged run is found where it is read.
		d.walk.checked = true
		return v.Head.Frontier, s.planner.Check(ctx, spec)
	}
	if err != nil {
		return v.Head.Frontier, err
	}
	head, _, err := s.store.Head(ctx, d.log)
	if err != nil {
		return v.Head.Frontier, err
	}
	return head.Frontier, nil
}

// walkPiece plans and publishes the piece below the frontier.
func (s *Service) walkPiece(
	ctx context.Context, d *descent, rec *state.Record, spec *advance.Spec, v *state.View, to kafkapos.Offset,
) error {
	t := s.table(rec.Topic.ID)
	if b := t.block(d.log.Partition, s.deps.Clock()); b != nil && b.Offset < v.Head.Frontier && b.Offset >= to {
		return b
	}
	piece, err := s.planner.PlanWalk(ctx, spec, v, to, d.walk.ahead)
	var stop *scan.Blocked
	if errors.As(err, &stop) {
		s.deps.Log.Warn("a record stops a walk", "topic", rec.Topic.Name, "kafka_partition", stop.Partition, "offset", stop.Offset,
			"reason", stop.Reason)
		t.setBlock(stop, s.deps.Clock().Add(s.cfg.BadRecordRetry))
	}
	if err != nil || piece == nil {
		return err
	}
	if err := s.publish(ctx, spec, piece); err != nil {
		return err
	}
	// Row groups that reach over what increments have published above: without them the file stays a room.
	if err := s.planner.Complete(ctx, spec, int64(piece.Range.End-1)>>spec.ChunkLog2); err != nil {
		s.deps.Log.Warn("complete a walked chunk", "topic", rec.Topic.Name, "kafka_partition", d.log.Partition, "err", err)
	}
	return nil
}

// walkSpec is what plans of a walk need that nobody's look at Kafka has started.
func (s *Service) walkSpec(ctx context.Context, rec *state.Record, v *state.View) (*advance.Spec, error) {
	cuts, err := s.cutEnds(ctx, rec)
	if err != nil {
		return nil, err
	}
	spec := s.recorded(rec, v.Log.Partition)
	spec.LogStart, spec.LeaderEpoch, spec.CutEnds = v.Head.LogStart, v.Head.LeaderEpoch, cuts[v.Log.Partition]
	return spec, nil
}

// rooms says how files are named of which not every event was read; nil for an eager table.
func (s *Service) rooms(ctx context.Context, in *sighting, rec *state.Record) (*publish.Rooms, error) {
	if !s.cfg.lazy(rec.Topic.Name) {
		return nil, nil
	}
	e, err := s.planner.Encoding(ctx, s.spec(in, rec, nil, 0))
	if err != nil {
		return nil, err
	}
	return &publish.Rooms{Bytes: s.cfg.RoomBytes, Encoding: e.ID, FileSchema: e.FileSchema, Times: in.times}, nil
}

// roomy reports whether the current snapshot shows rooms: nothing moves, and yet there may be a better one.
func (s *Service) roomy(ctx context.Context, rec *state.Record) bool {
	if len(rec.Snapshots) == 0 {
		return false
	}
	snap, err := s.store.Snapshot(ctx, rec.Epoch, rec.Snapshots[len(rec.Snapshots)-1].Blob)
	if err != nil {
		return false
	}
	for i := range snap.Groups {
		if snap.Groups[i].Rooms {
			return true
		}
	}
	return false
}

// describe answers what a data file is made of. One that is a room is walked down to first; what its cut named and a
// later one has passed is recorded then.
func (s *Service) describe(ctx context.Context, rec *state.Record, d objectname.DataFile) ([]*typesv1.RowGroup, int32, error) {
	if !render.IsRoom(d) {
		return s.deletes.DataFile(ctx, rec, d)
	}
	if err := s.passed(ctx, rec, d); err != nil {
		return nil, 0, err
	}
	groups, schemaID, err := s.deletes.DataFile(ctx, rec, d)
	if !errors.Is(err, fault.ErrRetired) {
		return groups, schemaID, err
	}
	_, err = s.recording.Do(ctx, d.Key(), func(ctx context.Context) (struct{}, error) {
		v, err := s.store.View(ctx, state.Log{Epoch: rec.Epoch, Partition: d.Partition})
		if err != nil {
			return struct{}{}, err
		}
		spec, err := s.walkSpec(ctx, rec, v)
		if err != nil {
			return struct{}{}, err
		}
		_, err = s.planner.Record(ctx, spec, d.Range)
		return struct{}{}, err
	})
	if err != nil {
		return nil, 0, err
	}
	return s.deletes.DataFile(ctx, rec, d)
}

// GetProgress implements dedupv1.DedupServiceServer.
func (s *Service) GetProgress(ctx context.Context, req *dedupv1.GetProgressRequest) (*dedupv1.GetProgressResponse, error) {
	id, err := kafkapos.ParseTopicID(req.GetTopicId())
	if err != nil {
		return nil, fmt.Errorf("get progress: %w: %w", err, fault.ErrInvalid)
	}
	rec, err := s.served(ctx, id)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrRetired) {
		return nil, fmt.Errorf("the topic was never loaded: %w", fault.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	out := &dedupv1.GetProgressResponse{StateEpoch: rec.Epoch, Plan: s.cfg.plan(rec.Topic.Name), Partitions: rec.Partitions}
	for p := range rec.Partitions {
		log := state.Log{Epoch: rec.Epoch, Partition: kafkapos.Partition(p)}
		h, _, err := s.store.Head(ctx, log)
		if errors.Is(err, fault.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w := &typesv1.WalkProgress{Partition: p, Start: int64(h.Start), Frontier: int64(h.Frontier), End: int64(h.End), Wanted: int64(h.Frontier)}
		if to, ok := s.descents.wanted(log); ok {
			w.Wanted = int64(min(to, h.Frontier))
		} else if !s.cfg.lazy(rec.Topic.Name) {
			w.Wanted = int64(min(h.Start, h.Frontier))
		}
		out.Walks = append(out.Walks, w)
	}
	return out, nil
}
