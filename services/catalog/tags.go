package catalog

import (
	"context"
	"errors"
	"fmt"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
)

// UpdateTags has dedup change the tags of a table and answers its metadata afterwards.
func (s *Service) UpdateTags(ctx context.Context, req *catalogv1.UpdateTagsRequest) (*catalogv1.UpdateTagsResponse, error) {
	dialect, err := dialectOf(req.GetWarehouse())
	if err != nil {
		return nil, err
	}
	if err := s.checkNamespace(req.GetNamespace()); err != nil {
		return nil, err
	}
	topic, err := s.dir.topic(ctx, req.GetTable())
	if err != nil {
		return nil, err
	}
	state, stale, err := s.present(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("tag table %s: %w", req.GetTable(), err)
	}
	sub := newSubject(&s.cfg, state, dialect)
	if want, is := req.GetTableUuid(), sub.uuid().String(); want != "" && want != is {
		return nil, fmt.Errorf("%w: the UUID of table %s is %s, not %s", fault.ErrConflict, req.GetTable(), is, want)
	}
	// The answer is the table as the dialect shows it. Where there is no such answer nothing is changed; a state epoch
	// that a dialect shows once is shown by it from then on.
	if snap := currentSnapshot(state); snap != nil && !sub.shows(snap) {
		return nil, sub.refused()
	}
	resp, err := s.deps.Dedup.UpdateTags(ctx, updateTags(state.GetStateEpoch(), req))
	if err != nil {
		return nil, s.notTagged(s.table(topic), req.GetTable(), rpc.Error(err))
	}
	s.tagged(s.table(topic), resp.GetState())
	sub = newSubject(&s.cfg, resp.GetState(), dialect)
	out := &catalogv1.UpdateTagsResponse{MetadataLocation: sub.uri(sub.object(sub.metadataFile()).Key())}
	if out.MetadataJson, err = sub.metadata(stale, false); err != nil {
		return nil, err
	}
	return out, nil
}

func updateTags(epoch string, req *catalogv1.UpdateTagsRequest) *dedupv1.UpdateTagsRequest {
	out := &dedupv1.UpdateTagsRequest{StateEpoch: epoch}
	for _, c := range req.GetChanges() {
		out.Changes = append(out.Changes, &dedupv1.TagChange{Name: c.GetName(), SnapshotId: c.GetSnapshotId()})
	}
	for _, r := range req.GetRequirements() {
		out.Requirements = append(out.Requirements, &dedupv1.RefRequirement{Name: r.GetName(), SnapshotId: r.GetSnapshotId()})
	}
	return out
}

// notTagged: a state epoch that was given up since the table was looked at is a requirement that is not met. The
// client looks again.
func (s *Service) notTagged(t *table, name string, err error) error {
	if errors.Is(err, fault.ErrRetired) || errors.Is(err, fault.ErrNotFound) {
		t.uncover()
		return fmt.Errorf("%w: table %s was made anew: %s", fault.ErrConflict, name, err.Error())
	}
	return fmt.Errorf("tag table %s: %w", name, err)
}

// tagged makes the version with the tags the one that is served, unless a newer one is by now.
func (s *Service) tagged(t *table, state *dedupv1.TableState) {
	s.keepState(state)
	t.update(func(p *progress) {
		if p.known && p.answer.epoch == state.GetStateEpoch() && p.answer.version < state.GetVersion() {
			p.answer.version = state.GetVersion()
		}
	})
}
