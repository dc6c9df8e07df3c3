// Package publish makes snapshots: a cut of a table's logs, and the manifest groups that show it. The
// compare-and-set of the record that names a new snapshot is what readers see.
package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Publisher publishes cuts. Safe for concurrent use.
type Publisher struct {
	Store *state.Store
	Now   func() time.Time
	// ChunksPerGroup is the number of chunks whose entries form one manifest.
	ChunksPerGroup int64
	Retention      Retention
}

// How far the time of a snapshot lies before the look at Kafka that it shows. DuckDB (Iceberg extension 1.5.5) reads
// the newest snapshot that is not younger than its transaction, which begins just before it asks for the table; with
// no snapshot that old it fails. The first snapshot of a table has none before it, and may take as long as a load
// waits. See docs/adr/0015-snapshots-are-backdated.md.
const (
	lead      = time.Second
	firstLead = 30 * time.Second
)

// Retention says which snapshots are kept beside the current and the tagged ones.
type Retention struct {
	Keep  time.Duration // none is older
	Dense time.Duration // all that are younger
	Every time.Duration // of the others, the newest per interval
}

// Cut publishes a snapshot of the logs as they are now, if it shows anything else than the current one: of
// partition i up to the scanned end of log i. The walk of every log has reached its start, or rooms says how files
// below the frontier are named. It answers the record that is current afterwards. seen is when Kafka was looked at for
// it.
func (p *Publisher) Cut(
	ctx context.Context, rec *state.Record, version chainstore.Version, seen time.Time, rooms *Rooms,
) (*state.Record, error) {
	for {
		next, err := p.attempt(ctx, rec, version, seen, rooms)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return next, err
		}
		epoch := rec.Epoch
		if rec, version, err = p.Store.Record(ctx, rec.Topic.ID); err != nil {
			return nil, err
		}
		if rec.Epoch != epoch {
			return nil, fmt.Errorf("publish a cut: state epoch %s was replaced: %w", epoch, fault.ErrRetired)
		}
	}
}

func (p *Publisher) attempt(
	ctx context.Context, rec *state.Record, version chainstore.Version, seen time.Time, rooms *Rooms,
) (*state.Record, error) {
	var prev *state.Snapshot
	if n := len(rec.Snapshots); n > 0 {
		var err error
		if prev, err = p.Store.Snapshot(ctx, rec.Epoch, rec.Snapshots[n-1].Blob); err != nil {
			return nil, fmt.Errorf("read the current snapshot: %w", lost(err))
		}
	}
	// The logs are read after the record: no component goes back, so the cut cannot either.
	views, err := p.views(ctx, rec, prev, rooms != nil)
	if err != nil {
		return nil, err
	}
	snap, err := p.snapshot(ctx, rec, prev, views, seen, rooms)
	if err != nil {
		return nil, err
	}
	gone := func(ref state.SnapshotRef) bool { return p.gone(ctx, rec.Epoch, ref, views) }
	if prev != nil && snap.ID == prev.ID && sameGroups(snap.Groups, prev.Groups) {
		if !slices.ContainsFunc(rec.Snapshots[:len(rec.Snapshots)-1], gone) {
			return rec, nil
		}
		next := rec.Clone()
		p.retire(next, gone)
		return next, Replace(ctx, p.Store, rec, version, next, p.Now())
	}
	ref := state.SnapshotRef{ID: snap.ID, TimeMs: snap.TimeMs}
	if ref.Blob, err = p.put(ctx, rec, snap); err != nil {
		return nil, err
	}
	next := rec.Clone()
	// The same cut shown by other files stays one snapshot.
	next.Snapshots = slices.DeleteFunc(next.Snapshots, func(s state.SnapshotRef) bool { return s.ID == snap.ID })
	next.Snapshots = append(next.Snapshots, ref)
	p.retire(next, gone)
	return next, Replace(ctx, p.Store, rec, version, next, p.Now())
}

// put stores a snapshot that is planned on rec and answers the suffix of its blob.
func (p *Publisher) put(ctx context.Context, rec *state.Record, snap *state.Snapshot) (suffix string, err error) {
	b := snap.Bytes()
	suffix = state.Suffix(rec.Version, b)
	return suffix, p.Store.PutBlob(ctx, state.SnapshotBlob(rec.Epoch, suffix), b)
}

// sameGroups reports whether two snapshots list the same manifest groups.
func sameGroups(a, b []state.ManifestGroup) bool {
	return slices.EqualFunc(a, b, func(x, y state.ManifestGroup) bool { return x.Name == y.Name })
}

// Replace publishes next in place of rec, which is at the given version of the store. The replaced record stays
// readable under its version.
func Replace(
	ctx context.Context, store *state.Store, rec *state.Record, version chainstore.Version, next *state.Record, now time.Time,
) error {
	if err := store.PutBlob(ctx, state.VersionBlob(rec.Epoch, rec.Version), rec.Bytes()); err != nil {
		return fmt.Errorf("keep version %d: %w", rec.Version, err)
	}
	next.Version = rec.Version + 1
	next.UpdatedMs = max(now.UnixMilli(), rec.UpdatedMs)
	return store.SetRecord(ctx, version, next)
}

// views reads the logs, and checks that none has gone back or, unless that is no matter, is not walked.
func (p *Publisher) views(ctx context.Context, rec *state.Record, prev *state.Snapshot, lazy bool) ([]*state.View, error) {
	var out []*state.View
	for i := range rec.Partitions {
		v, err := p.Store.View(ctx, state.Log{Epoch: rec.Epoch, Partition: kafkapos.Partition(i)})
		if err != nil {
			return nil, fmt.Errorf("read the head of partition %d: %w", i, err)
		}
		if !lazy && !v.Head.Walked() {
			return nil, fmt.Errorf("partition %d is scanned down to %d of %d: %w", i, v.Head.Frontier, v.Head.Start, fault.ErrUnavailable)
		}
		if v.Head.End < v.Head.Floor {
			return nil, fmt.Errorf("partition %d can be shown from end %d on, has %d: %w", i, v.Head.Floor, v.Head.End, fault.ErrUnavailable)
		}
		if prev != nil && (v.Head.End < prev.Cut[i].End || v.Head.Start < prev.Cut[i].Start) {
			return nil, fmt.Errorf("partition %d went back from %s to [%d,%d): %w",
				i, prev.Cut[i], v.Head.Start, v.Head.End, state.ErrLost)
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *Publisher) snapshot(
	ctx context.Context, rec *state.Record, prev *state.Snapshot, views []*state.View, seen time.Time, rooms *Rooms,
) (*state.Snapshot, error) {
	snap := &state.Snapshot{SchemaID: int32(len(rec.Schemas) - 1), TimeMs: seen.Add(-lead).UnixMilli()}
	var frontiers []kafkapos.Offset
	for _, v := range views {
		snap.Cut = append(snap.Cut, kafkapos.Range{Start: v.Head.Start, End: v.Head.End})
		frontiers = append(frontiers, v.Head.Frontier)
	}
	snap.ID = state.SnapshotID(rec.Topic.ID, rec.Epoch, objectname.Current, snap.Cut, frontiers)
	switch {
	case prev == nil:
		snap.TimeMs = seen.Add(-firstLead).UnixMilli()
	case prev.ID == snap.ID:
		snap.ParentID, snap.TimeMs = prev.ParentID, prev.TimeMs
	default:
		snap.ParentID, snap.TimeMs = prev.ID, max(snap.TimeMs, prev.TimeMs+1)
	}
	r := newRenderer(p.Store, rec, p.ChunksPerGroup, snap.ID, prev)
	r.rooms = rooms
	for _, v := range views {
		groups, err := r.groups(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("list partition %d: %w", v.Log.Partition, err)
		}
		snap.Groups = append(snap.Groups, groups...)
	}
	return snap, nil
}
