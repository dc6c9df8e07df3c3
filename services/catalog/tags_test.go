package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/objectname"
)

// UpdateTags of the fake takes every change; a requirement on "taken" is not met.
func (f *fakeDedup) UpdateTags(_ context.Context, req *dedupv1.UpdateTagsRequest) (*dedupv1.UpdateTagsResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.replaced[req.GetStateEpoch()] {
		return nil, fmt.Errorf("made anew: %w", fault.ErrRetired)
	}
	for _, r := range req.GetRequirements() {
		if r.GetName() == "taken" {
			return nil, fmt.Errorf("%w: ref taken", fault.ErrConflict)
		}
	}
	return &dedupv1.UpdateTagsResponse{State: f.change(req.GetStateEpoch(), func(s *dedupv1.TableState) {
		if s.Tags == nil {
			s.Tags = map[string]int64{}
		}
		for _, c := range req.GetChanges() {
			s.Tags[c.GetName()] = c.GetSnapshotId()
		}
	})}, nil
}

func TestTagsAreRefsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 40)
	before := w.load(&catalogv1.LoadTableRequest{Warehouse: objectname.V2})
	var doc struct {
		UUID    string `json:"table-uuid"`
		Current int64  `json:"current-snapshot-id"`
		Refs    map[string]struct {
			ID   int64  `json:"snapshot-id"`
			Type string `json:"type"`
		} `json:"refs"`
	}
	decode := func(b []byte) {
		t.Helper()
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
	}
	decode(before.GetMetadataJson())
	req := &catalogv1.UpdateTagsRequest{
		Warehouse: objectname.V2, Namespace: "kafka", Table: "orders", TableUuid: doc.UUID,
		Changes: []*catalogv1.TagChange{{Name: "month-end", SnapshotId: doc.Current}},
	}
	resp, err := w.UpdateTags(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	decode(resp.GetMetadataJson())
	if ref := doc.Refs["month-end"]; ref.ID != doc.Current || ref.Type != "tag" || resp.GetMetadataLocation() == before.GetMetadataLocation() {
		t.Fatalf("refs %v at %s", doc.Refs, resp.GetMetadataLocation())
	}
	// No offset has moved and no time has passed: the tag is there all the same.
	if after := w.load(&catalogv1.LoadTableRequest{Warehouse: objectname.V2}); after.GetMetadataLocation() != resp.GetMetadataLocation() {
		t.Fatalf("loaded %s, tagged %s", after.GetMetadataLocation(), resp.GetMetadataLocation())
	}
	req.TableUuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
	if _, err := w.UpdateTags(t.Context(), req); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("another UUID: %v", err)
	}
	req.TableUuid, req.Requirements = "", []*catalogv1.RefRequirement{{Name: "taken"}}
	if _, err := w.UpdateTags(t.Context(), req); !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("a requirement that is not met: %v", err)
	}
	req.Table = "none"
	if _, err := w.UpdateTags(t.Context(), req); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("no table: %v", err)
	}
}

// A tag is changed, or the change is refused, never both: what a dialect cannot show, as the vectors of files that nobody
// has read, is refused before anything is changed, and the other dialect takes it.
func TestATagThatCannotBeAnsweredIsNotChanged(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 40)
	w.load(&catalogv1.LoadTableRequest{Warehouse: objectname.V2})
	var current int64
	var epoch string
	w.dedup.set(func(f *fakeDedup) {
		epoch = f.current["orders"]
		f.change(epoch, func(s *dedupv1.TableState) {
			current = currentSnapshot(s).GetId()
			currentSnapshot(s).GetGroups()[0].Rooms = true
			s.Tags = map[string]int64{"month-end": current}
		})
	})
	w.Service = w.replica()
	for _, change := range []*catalogv1.TagChange{{Name: "month-end"}, {Name: "year-end", SnapshotId: current}} {
		req := &catalogv1.UpdateTagsRequest{Warehouse: objectname.V3, Namespace: "kafka", Table: "orders", Changes: []*catalogv1.TagChange{change}}
		if _, err := w.UpdateTags(t.Context(), req); !errors.Is(err, fault.ErrInvalid) {
			t.Fatalf("tag %s in a dialect without the table: %v", change.GetName(), err)
		}
		w.dedup.set(func(f *fakeDedup) {
			if tags := f.newest(epoch).GetTags(); len(tags) != 1 || tags["month-end"] != current {
				t.Fatalf("refused, and yet the tags are %v", tags)
			}
		})
		req.Warehouse = objectname.V2
		if _, err := w.UpdateTags(t.Context(), req); err != nil {
			t.Fatalf("tag %s: %v", change.GetName(), err)
		}
		w.dedup.set(func(f *fakeDedup) {
			if tags := f.newest(epoch).GetTags(); tags[change.GetName()] != change.GetSnapshotId() {
				t.Fatalf("taken, and yet the tags are %v", tags)
			}
			f.change(epoch, func(s *dedupv1.TableState) { s.Tags = map[string]int64{"month-end": current} })
		})
	}
}
