package dedup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Advance implements dedupv1.DedupServiceServer.
func (s *Service) Advance(ctx context.Context, req *dedupv1.AdvanceRequest) (*dedupv1.AdvanceResponse, error) {
	if err := s.running(); err != nil {
		return nil, err
	}
	in, err := parseSighting(req)
	if err != nil {
		return nil, err
	}
	in.at = s.deps.Clock()
	t := s.table(in.topic.ID)
	in = t.observe(in)
	if resp, err := s.settled(ctx, t, &in); resp != nil || err != nil {
		return resp, err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(max(0, req.GetWaitMillis()))*time.Millisecond)
	defer cancel()
	for {
		out, err := s.flights.Do(waiting, in.topic.ID, func(ctx context.Context) (outcome, error) { return s.pass(ctx, t) })
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && waiting.Err() != nil:
			return s.late(ctx, t, &in)
		case out.number < in.number && out.number > 0:
			continue // it had begun before this sighting
		case err != nil:
			return nil, advanceError(err)
		case out.behind == nil:
			return s.fresh(ctx, out.rec)
		}
		return s.stale(ctx, t, out.rec, out.behind.Error())
	}
}

func (s *Service) fresh(ctx context.Context, rec *state.Record) (*dedupv1.AdvanceResponse, error) {
	st, err := s.tableState(ctx, rec)
	if err != nil {
		return nil, err
	}
	return &dedupv1.AdvanceResponse{State: st}, nil
}

func (s *Service) stale(ctx context.Context, t *table, rec *state.Record, reason string) (*dedupv1.AdvanceResponse, error) {
	resp, err := s.fresh(ctx, rec)
	if err != nil {
		return nil, err
	}
	resp.StaleSinceMillis, resp.StaleReason = t.staleSince(rec), reason
	return resp, nil
}

// late answers a caller whose wait is over while the work goes on.
func (s *Service) late(ctx context.Context, t *table, in *sighting) (*dedupv1.AdvanceResponse, error) {
	rec, err := s.served(ctx, in.topic.ID)
	if err != nil && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, fault.ErrRetired) {
		return nil, advanceError(err)
	}
	progress, perr := s.progress(ctx, rec)
	if perr != nil {
		return nil, advanceError(perr)
	}
	if err == nil && len(rec.Snapshots) > 0 {
		return s.stale(ctx, t, rec, "still advancing")
	}
	return nil, fmt.Errorf("table %s is being read for the first time: %s: %w", in.table, progress, fault.ErrUnavailable)
}

// progress says how far the first walk of a table is.
func (s *Service) progress(ctx context.Context, rec *state.Record) (string, error) {
	if rec == nil {
		return "looking for its schema", nil
	}
	done, total, begun := int64(0), int64(0), int32(0)
	for p := range rec.Partitions {
		h, _, err := s.store.Head(ctx, state.Log{Epoch: rec.Epoch, Partition: kafkapos.Partition(p)})
		if errors.Is(err, fault.ErrNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		begun++
		done += int64(h.End - max(h.Frontier, h.Start))
		total += int64(h.End - h.Start)
	}
	percent := 100.0
	if total > 0 {
		percent = math.Floor(1000*float64(done)/float64(total)) / 10
	}
	return fmt.Sprintf("%d of %d offsets (%.1f %%) in %d of %d partitions", done, total, percent, begun, rec.Partitions), nil
}

// advanceError gives the error of a pass one of the kinds that Advance declares.
func advanceError(err error) error {
	kind := fault.ErrUnavailable
	for _, k := range []error{fault.ErrInvalid, fault.ErrCorrupt, fault.ErrUnavailable} {
		if errors.Is(err, k) {
			kind = k
			break
		}
	}
	return &kindError{text: err.Error(), kind: kind}
}

// kindError is an error of one kind only, whatever led to it.
type kindError struct {
	text string
	kind error
}

// Error is the whole text.
func (e *kindError) Error() string { return e.text }

// Unwrap answers the kind.
func (e *kindError) Unwrap() error { return e.kind }

// GetTable implements dedupv1.DedupServiceServer.
func (s *Service) GetTable(ctx context.Context, req *dedupv1.GetTableRequest) (*dedupv1.GetTableResponse, error) {
	rec, err := s.resolve(ctx, req.GetStateEpoch())
	if err != nil {
		return nil, err
	}
	if v := req.GetVersion(); v != 0 && v != rec.Version {
		if rec, err = s.version(ctx, rec, v); err != nil {
			return nil, err
		}
	}
	st, err := s.tableState(ctx, rec)
	if err != nil {
		return nil, err
	}
	return &dedupv1.GetTableResponse{State: st}, nil
}

// version answers a replaced version of a record.
func (s *Service) version(ctx context.Context, rec *state.Record, v uint64) (*state.Record, error) {
	b, err := s.store.GetBlob(ctx, state.VersionBlob(rec.Epoch, v))
	if errors.Is(err, fault.ErrNotFound) {
		return nil, fmt.Errorf("version %d of table %s is not held, the newest is %d: %w", v, rec.Table, rec.Version, fault.ErrRetired)
	}
	if err != nil {
		return nil, err
	}
	return state.ParseRecord(b)
}

// GetManifestGroup implements dedupv1.DedupServiceServer.
func (s *Service) GetManifestGroup(ctx context.Context, req *dedupv1.GetManifestGroupRequest) (*dedupv1.GetManifestGroupResponse, error) {
	rec, err := s.resolve(ctx, req.GetStateEpoch())
	if err != nil {
		return nil, err
	}
	var g *dedupv1.GetManifestGroupResponse
	err = s.whole(ctx, rec, func() (err error) {
		g, err = s.store.ManifestGroup(ctx, rec.Epoch, req.GetName())
		if errors.Is(err, fault.ErrNotFound) && len(req.GetName()) == state.GroupNameLen {
			err = s.promised(ctx, rec, req.GetName())
		}
		return err
	})
	return g, err
}

// tableState is a record as clients see it.
func (s *Service) tableState(ctx context.Context, rec *state.Record) (*dedupv1.TableState, error) {
	st := &dedupv1.TableState{
		Topic: wireTopic(rec.Topic), Table: rec.Table, StateEpoch: rec.Epoch, Version: rec.Version, CheckKey: rec.CheckKey[:],
		Partitions: rec.Partitions, SchemasJson: rec.Schemas, CurrentSchemaId: int32(len(rec.Schemas) - 1), Tags: map[string]int64{},
		CreatedMillis: rec.CreatedMs, UpdatedMillis: rec.UpdatedMs, Plan: s.cfg.plan(rec.Topic.Name),
	}
	for _, t := range rec.Tags {
		st.Tags[t.Name] = t.ID
	}
	first := len(rec.Snapshots) - s.cfg.Snapshots.Listed
	for i, ref := range rec.Snapshots {
		if i < first && !rec.Tagged(ref.ID) {
			continue
		}
		snap, err := s.store.Snapshot(ctx, rec.Epoch, ref.Blob)
		if err != nil {
			return nil, fmt.Errorf("read snapshot %d: %w", ref.ID, notHeld(err))
		}
		st.Snapshots = append(st.Snapshots, wireSnapshot(snap))
	}
	return st, nil
}

// notHeld: a snapshot that a version of the record lists and the store lacks was collected with it.
func notHeld(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return fmt.Errorf("%w: no longer held", fault.ErrRetired)
	}
	return err
}

func wireSnapshot(snap *state.Snapshot) *dedupv1.Snapshot {
	out := &dedupv1.Snapshot{Id: snap.ID, ParentId: snap.ParentID, TimestampMillis: snap.TimeMs, SchemaId: snap.SchemaID}
	for p, r := range snap.Cut {
		out.Cut = append(out.Cut, &dedupv1.PartitionCut{Partition: int32(p), Start: int64(r.Start), End: int64(r.End)})
	}
	for _, g := range snap.Groups {
		if g.Name == "" {
			continue // nothing to list
		}
		out.Groups = append(out.Groups, &dedupv1.GroupRef{
			Name: g.Name, AddedSnapshotId: g.AddedSnapshotID, DataFiles: g.DataFiles, Rows: g.Rows, DeleteFiles: g.DeleteFiles,
			DeletedRows: g.DeletedRows, Rooms: g.Rooms,
		})
	}
	return out
}

func wireTopic(t state.Topic) *typesv1.TopicRef {
	return &typesv1.TopicRef{ClusterId: t.ClusterID, TopicId: t.ID[:], Topic: t.Name}
}

// tableSpec is what decides which rows the records of a table make, under one of its schemas.
func tableSpec(rec *state.Record, schemaID int32) *typesv1.TableSpec {
	return &typesv1.TableSpec{
		Topic: wireTopic(rec.Topic), StateEpoch: rec.Epoch, HashKey: rec.HashKey[:], SchemaJson: rec.Schemas[schemaID],
		Decoding: &typesv1.Decoding{
			KeyFormat: rec.Decoding.KeyFormat, ValueFormat: rec.Decoding.ValueFormat, Envelope: rec.Decoding.Envelope,
			KeyFields: rec.Decoding.KeyFields,
		},
		View: objectname.Current,
	}
}
