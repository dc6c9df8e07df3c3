package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
		if s.upgraded(ctx, t, in, now) {
			break
		}
		resp, err := s.fresh(ctx, now) // another replica may have gone on
		if !errors.Is(err, fault.ErrRetired) {
			return resp, err
		}
	}
	t.unsettle()
	return nil, nil
}

// regain works through a sighting after a pass has found that published state is lost: once more, because things are
// collected while a process is held up over an old view of them; and if they are still missing, on a new state epoch.
func (s *Service) regain(ctx context.Context, t *table, in *sighting) (*state.Record, error) {
	rec, err := s.work(ctx, t, in)
	if !errors.Is(err, state.ErrLost) {
		return rec, err
	}
	now, _, readErr := s.store.Record(ctx, in.topic.ID)
	if readErr != nil {
		return nil, readErr
	}
	if err := s.replace(ctx, now.Epoch, err.Error()); err != nil {
		return nil, err
	}
	t.unsettle()
	clear(t.verified)
	return s.work(ctx, t, in)
}

// whole reads published state for a caller. If it is lost, also when it is looked for a second time, its state epoch is
// given up: fault.ErrRetired.
func (s *Service) whole(ctx context.Context, rec *state.Record, read func() error) error {
	err := read()
	if errors.Is(err, state.ErrLost) {
		err = read()
	}
	if !errors.Is(err, state.ErrLost) {
		return err
	}
	if replaceErr := s.replace(ctx, rec.Epoch, err.Error()); replaceErr != nil {
		return replaceErr
	}
	s.table(rec.Topic.ID).unsettle()
	return fmt.Errorf("state epoch %s of table %s was given up: %v: %w", rec.Epoch, rec.Table, err, fault.ErrRetired) //nolint:errorlint // no longer that kind
}

// promised answers fault.ErrRetired for a manifest group that no kept snapshot has, and state.ErrLost for one that is
// named by a snapshot of the record.
func (s *Service) promised(ctx context.Context, rec *state.Record, name string) error {
	for _, ref := range rec.Snapshots {
		snap, err := s.store.Snapshot(ctx, rec.Epoch, ref.Blob)
		if err != nil && !errors.Is(err, fault.ErrNotFound) {
			return err
		}
		if err == nil && slices.ContainsFunc(snap.Groups, func(g state.ManifestGroup) bool { return g.Name == name }) {
			return fmt.Errorf("snapshot %d names manifest group %s, which the store lacks: %w", ref.ID, name, state.ErrLost)
		}
	}
	return fmt.Errorf("manifest group %s is not held: no kept snapshot has it: %w", name, fault.ErrRetired)
}

// serves reports whether a record's state epoch has not been given up.
func (s *Service) serves(ctx context.Context, rec *state.Record) bool {
	info, _, err := s.store.Epoch(ctx, rec.Epoch)
	return err == nil && info.Replaced == ""
}
