package publish

import (
	"context"
	"errors"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// retire drops the snapshots that are not kept any more from a record that is being made.
func (p *Publisher) retire(rec *state.Record, gone func(state.SnapshotRef) bool) {
	now := p.Now().UnixMilli()
	var kept []state.SnapshotRef
	bucket := int64(-1)
	for i, ref := range slices.Backward(rec.Snapshots) {
		current := i == len(rec.Snapshots)-1
		if current || p.keeps(rec, ref, now-rec.Snapshots[i+1].TimeMs, &bucket) && !gone(ref) {
			kept = append(kept, ref)
		}
	}
	slices.Reverse(kept)
	rec.Snapshots = kept
	// A tag goes with its snapshot: Kafka has lost rows that it needs.
	rec.Tags = slices.DeleteFunc(rec.Tags, func(t state.Tag) bool {
		return !slices.ContainsFunc(kept, func(r state.SnapshotRef) bool { return r.ID == t.ID })
	})
}

// keeps decides by age, milliseconds since the snapshot was the current one: until then queries begin on it. bucket is
// the interval of the last one that was kept for its interval.
func (p *Publisher) keeps(rec *state.Record, ref state.SnapshotRef, age int64, bucket *int64) bool {
	at := ref.TimeMs / max(1, p.Retention.Every.Milliseconds())
	switch {
	case rec.Tagged(ref.ID), age < p.Retention.Dense.Milliseconds():
		return true
	case age >= p.Retention.Keep.Milliseconds() || at == *bucket:
		return false
	}
	*bucket = at
	return true
}

// gone reports whether Kafka's log start has passed the start of the snapshot in any partition. A snapshot that
// cannot be read now is kept for now.
func (p *Publisher) gone(ctx context.Context, epoch string, ref state.SnapshotRef, views []*state.View) bool {
	s, err := p.Store.Snapshot(ctx, epoch, ref.Blob)
	if err != nil {
		return errors.Is(err, fault.ErrNotFound)
	}
	for i, v := range views {
		if i < len(s.Cut) && s.Cut[i].Start < v.Head.LogStart && !s.Cut[i].Empty() {
			return true
		}
	}
	return false
}
