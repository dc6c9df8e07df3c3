package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// encodingCheck is after how long a table at rest is looked at again for whether the materializers have another encoder.
const encodingCheck = 10 * time.Second

// upgraded reports whether kept snapshots have files that are named for another encoder than the present one. The
// materializers are asked now and then: no scan says so while nothing is produced.
func (s *Service) upgraded(ctx context.Context, t *table, in *sighting, rec *state.Record) bool {
	if rec.ChunkLog2 != 0 && t.checkEncoding(s.deps.Clock()) {
		if _, err := s.planner.AskEncoding(ctx, s.spec(in, rec, nil, 0)); err != nil {
			s.deps.Log.Debug("ask for the encoding", "table", rec.Table, "topic", rec.Topic.Name, "err", err)
		}
	}
	return !s.renewed(t, rec)
}

// grownError is that a topic has another number of partitions than its table was made with. What was published goes on
// being served.
type grownError struct {
	rec     *state.Record
	version chainstore.Version
	has     int
}

// Error implements error.
func (e *grownError) Error() string {
	return fmt.Sprintf("topic %s has %d partitions, its table was made with %d: keys may have moved between them, so that a key could"+
		" show twice; a new state epoch is needed: %v", e.rec.Topic.Name, e.has, e.rec.Partitions, fault.ErrInvalid)
}

// Unwrap is fault.ErrInvalid.
func (e *grownError) Unwrap() error { return fault.ErrInvalid }

// keep lets what a table that cannot be advanced has published be read by the present encoder.
func (s *Service) keep(ctx context.Context, t *table, in *sighting, grown *grownError) error {
	rec := grown.rec
	if rec.ChunkLog2 == 0 || len(rec.Snapshots) == 0 || int(rec.Partitions) > len(in.logs) {
		return nil
	}
	if _, err := s.planner.Encoding(ctx, s.spec(in, rec, nil, 0)); err != nil {
		return err
	}
	if !s.upgraded(ctx, t, in, rec) {
		return nil
	}
	cuts, err := s.cutEnds(ctx, rec)
	if err != nil {
		return err
	}
	for p := range kafkapos.Partition(rec.Partitions) {
		if in.logs[p].offline {
			continue
		}
		w := &worker{s: s, t: t, in: in, spec: s.spec(in, rec, cuts, p), now: s.deps.Clock(), lazy: s.cfg.lazy(in.topic.Name)}
		if _, err := w.slot(ctx, func(ctx context.Context) (bool, error) { return false, w.complete(ctx) }); err != nil {
			return err
		}
	}
	_, _, err = s.renew(ctx, t, in, rec, grown.version)
	return err
}

// renew names the files of the kept snapshots anew where the encoder has changed since they were named. It answers the
// record that is current afterwards. What cannot be named now is tried again in the next pass.
func (s *Service) renew(
	ctx context.Context, t *table, in *sighting, rec *state.Record, version chainstore.Version,
) (*state.Record, chainstore.Version, error) {
	for !s.renewed(t, rec) {
		cuts, err := s.cutEnds(ctx, rec)
		if err != nil {
			return nil, 0, err
		}
		record := func(ctx context.Context, p kafkapos.Partition, rng kafkapos.Range) ([]*typesv1.RowGroup, error) {
			return s.planner.Record(ctx, s.spec(in, rec, cuts, p), rng)
		}
		now, _ := s.planner.Known(rec.Epoch)
		replaced, err := s.cuts.Renew(ctx, rec, version, now, record)
		switch {
		case err == nil:
			t.setNamed(rec.Epoch, now.ID)
		case errors.Is(err, fault.ErrConflict): // another replica was faster
			replaced = true
		case errors.Is(err, state.ErrLost) || ctx.Err() != nil:
			return nil, 0, err
		default:
			s.deps.Log.Warn("files of kept snapshots are not named for the present encoder yet", "table", rec.Table,
				"topic", rec.Topic.Name, "err", err)
			return rec, version, nil
		}
		if !replaced {
			break
		}
		epoch := rec.Epoch
		if rec, version, err = s.store.Record(ctx, in.topic.ID); err != nil {
			return nil, 0, err
		}
		if rec.Epoch != epoch {
			return nil, 0, fmt.Errorf("state epoch %s was replaced: %w", epoch, fault.ErrRetired)
		}
	}
	return rec, version, nil
}

// renewed reports whether the files of all kept snapshots are known to be named for the present encoder.
func (s *Service) renewed(t *table, rec *state.Record) bool {
	now, known := s.planner.Known(rec.Epoch)
	return !known || len(rec.Snapshots) == 0 || t.namedFor(rec.Epoch, now.ID)
}
