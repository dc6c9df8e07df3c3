package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/frazil-io/frazil/libs/fault"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

const (
	// mainRef is the current snapshot. It follows the topic: nobody sets it.
	mainRef = "main"
	// maxTagName is the longest name of a tag, bytes.
	maxTagName = 256
	// maxTags bounds the record, which every change of a table writes anew.
	maxTags = 1000
)

// UpdateTags implements dedupv1.DedupServiceServer: one compare-and-set of the record.
func (s *Service) UpdateTags(ctx context.Context, req *dedupv1.UpdateTagsRequest) (*dedupv1.UpdateTagsResponse, error) {
	if err := s.running(); err != nil {
		return nil, err
	}
	for {
		if _, err := s.resolve(ctx, req.GetStateEpoch()); err != nil {
			return nil, err
		}
		rec, changed, err := s.retag(ctx, req)
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if changed {
			s.deps.Log.Info("tags changed", "table", rec.Table, "state_epoch", rec.Epoch, "version", rec.Version, "tags", len(rec.Tags))
		}
		st, err := s.tableState(ctx, rec)
		if err != nil {
			return nil, err
		}
		return &dedupv1.UpdateTagsResponse{State: st}, nil
	}
}

// errLost is a compare-and-set that another writer won: unlike a requirement that is not met, it is tried again.
var errLost = errors.New("another version was published")

// retag makes the changes on the record as it is now.
func (s *Service) retag(ctx context.Context, req *dedupv1.UpdateTagsRequest) (next *state.Record, changed bool, err error) {
	info, _, err := s.store.Epoch(ctx, req.GetStateEpoch())
	if err != nil {
		return nil, false, err
	}
	rec, version, err := s.store.Record(ctx, info.Topic.ID)
	if err != nil {
		return nil, false, err
	}
	if rec.Epoch != req.GetStateEpoch() {
		return nil, false, fmt.Errorf("state epoch %s of table %s was replaced: %w", req.GetStateEpoch(), rec.Table, fault.ErrRetired)
	}
	for _, r := range req.GetRequirements() {
		if err := require(rec, r); err != nil {
			return nil, false, err
		}
	}
	next = rec.Clone()
	for _, c := range req.GetChanges() {
		if err := tag(next, c); err != nil {
			return nil, false, err
		}
	}
	if slices.Equal(next.Tags, rec.Tags) {
		return rec, false, nil
	}
	err = publish.Replace(ctx, s.store, rec, version, next, s.deps.Clock())
	if errors.Is(err, fault.ErrConflict) {
		return nil, false, errLost
	}
	return next, true, err
}

// require checks where a ref stands. fault.ErrConflict: elsewhere.
func require(rec *state.Record, r *dedupv1.RefRequirement) error {
	at := int64(0)
	if n := len(rec.Snapshots); r.GetName() == mainRef && n > 0 {
		at = rec.Snapshots[n-1].ID
	}
	if i, ok := tagged(rec, r.GetName()); ok {
		at = rec.Tags[i].ID
	}
	switch want := r.GetSnapshotId(); {
	case at == want:
		return nil
	case at == 0:
		return fmt.Errorf("%w: ref %q is not there, snapshot %d was expected", fault.ErrConflict, r.GetName(), want)
	case want == 0:
		return fmt.Errorf("%w: ref %q is there already", fault.ErrConflict, r.GetName())
	default:
		return fmt.Errorf("%w: ref %q is at snapshot %d, not at %d", fault.ErrConflict, r.GetName(), at, want)
	}
}

// tag makes one change to a record that is being made.
func tag(rec *state.Record, c *dedupv1.TagChange) error {
	name := c.GetName()
	if name == "" || name == mainRef || len(name) > maxTagName || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("tag %q: a name has 1 to %d bytes and is not %q: %w", name, maxTagName, mainRef, fault.ErrInvalid)
	}
	i, ok := tagged(rec, name)
	switch id := c.GetSnapshotId(); {
	case id == 0 && ok:
		rec.Tags = slices.Delete(rec.Tags, i, i+1)
	case id == 0:
	case !slices.ContainsFunc(rec.Snapshots, func(s state.SnapshotRef) bool { return s.ID == id }):
		return fmt.Errorf("tag %q: table %s keeps no snapshot %d: %w", name, rec.Table, id, fault.ErrInvalid)
	case ok:
		rec.Tags[i].ID = id
	case len(rec.Tags) >= maxTags:
		return fmt.Errorf("tag %q: table %s has %d tags, the most there can be: %w", name, rec.Table, len(rec.Tags), fault.ErrInvalid)
	default:
		rec.Tags = slices.Insert(rec.Tags, i, state.Tag{Name: name, ID: id})
	}
	return nil
}

// tagged answers where a tag is, or belongs, among the tags by name.
func tagged(rec *state.Record, name string) (int, bool) {
	return slices.BinarySearchFunc(rec.Tags, name, func(t state.Tag, name string) int { return strings.Compare(t.Name, name) })
}
