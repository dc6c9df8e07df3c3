package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// folder remembers up to where the marks of each log are folded, so that a log whose snapshots have not moved is not
// looked at. One goroutine uses it.
type folder struct {
	s    *Service
	done map[state.Log]kafkapos.Offset
}

// foldMarks folds the marks of tables that were loaded, beside the advances that go on.
func (s *Service) foldMarks(ctx context.Context) {
	if s.cfg.Fold.Every == 0 {
		return
	}
	f := &folder{s: s, done: map[state.Log]kafkapos.Offset{}}
	tick := time.NewTicker(s.cfg.Fold.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.pass(ctx)
		}
	}
}

// pass looks at every table once. What fails is tried again the next time.
func (f *folder) pass(ctx context.Context) {
	f.s.mu.Lock()
	ids := slices.Collect(maps.Keys(f.s.tables))
	f.s.mu.Unlock()
	seen := map[state.Log]kafkapos.Offset{}
	for _, id := range ids {
		if err := f.table(ctx, id, seen); err != nil && ctx.Err() == nil {
			f.s.deps.Log.Warn("fold marks", "topic_id", id.String(), "err", err)
		}
	}
	f.done = seen
}

func (f *folder) table(ctx context.Context, id kafkapos.TopicID, seen map[state.Log]kafkapos.Offset) error {
	rec, err := f.s.served(ctx, id)
	if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrRetired) {
		return nil
	}
	if err != nil || len(rec.Snapshots) == 0 {
		return err
	}
	plans, err := f.s.folds(ctx, rec)
	if err != nil {
		return err
	}
	var errs []error
	for _, plan := range plans {
		if f.done[plan.Log] == plan.Horizon {
			seen[plan.Log] = plan.Horizon // marks that came since lie above
			continue
		}
		err := f.log(ctx, plan)
		if errors.Is(err, fault.ErrConflict) {
			continue // another replica is at it
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[plan.Log] = plan.Horizon
	}
	return join(errs...)
}

// log folds one log, a piece at a time.
func (f *folder) log(ctx context.Context, plan *advance.Fold) error {
	for from := int64(0); ; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, next, err := f.s.planner.Fold(ctx, plan, from)
		if err != nil || next == 0 {
			return err
		}
		from = next
	}
}

// folds says, by partition, between which cuts a table's marks may be folded: all kept snapshots stay as they are, and
// what is newer than the oldest one that is not only kept by a tag stays marks, for the queries that still run on
// snapshots that are dropped in between.
func (s *Service) folds(ctx context.Context, rec *state.Record) ([]*advance.Fold, error) {
	out := make([]*advance.Fold, rec.Partitions)
	for p := range out {
		out[p] = &advance.Fold{
			Log: state.Log{Epoch: rec.Epoch, Partition: kafkapos.Partition(p)}, ChunkLog2: rec.ChunkLog2, Horizon: -1,
			MinMarks: s.cfg.Fold.MinMarks, MaxMarks: s.cfg.Fold.MaxMarks,
		}
	}
	for i, ref := range rec.Snapshots {
		snap, err := s.store.Snapshot(ctx, rec.Epoch, ref.Blob)
		if err != nil {
			return nil, fmt.Errorf("read snapshot %d: %w", ref.ID, notHeld(err))
		}
		byAge := i == len(rec.Snapshots)-1 || !rec.Tagged(ref.ID)
		for p, r := range snap.Cut {
			out[p].Ends = append(out[p].Ends, r.End)
			if byAge && out[p].Horizon < 0 {
				out[p].Horizon = r.End
			}
		}
	}
	for _, f := range out {
		slices.Sort(f.Ends)
		f.Ends = slices.Compact(f.Ends)
	}
	return out, nil
}
