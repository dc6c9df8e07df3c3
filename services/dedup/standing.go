package dedup

import (
	"context"
	"errors"

	"github.com/frazil-io/frazil/libs/fault"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// settled answers a sighting that is known to be covered, nil if it must be worked through. What this process
// remembers only spares the work: the store is asked whether it still has the record. If it has an older one, or none,
// it was rolled back, and the version that is remembered is the proof that the next pass needs.
func (s *Service) settled(ctx context.Context, t *table, in *sighting) (*dedupv1.AdvanceResponse, error) {
	rec := t.settled(in)
	if rec == nil {
		return nil, nil
	}
	now, _, err := s.store.Record(ctx, in.topic.ID)
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return s.stale(ctx, t, rec, "the state store does not answer")
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return nil, advanceError(err)
	case err == nil && now.Epoch == rec.Epoch && now.Version >= rec.Version && s.serves(ctx, now):
		return s.fresh(ctx, now) // another replica may have gone on
	}
	t.unsettle()
	return nil, nil
}

// serves reports whether a record's state epoch has not been given up.
func (s *Service) serves(ctx context.Context, rec *state.Record) bool {
	info, _, err := s.store.Epoch(ctx, rec.Epoch)
	return err == nil && info.Replaced == ""
}
