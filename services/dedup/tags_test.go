package dedup

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// retag changes tags and expects that it works.
func (w *world) retag(st *dedupv1.TableState, changes ...*dedupv1.TagChange) *dedupv1.TableState {
	w.t.Helper()
	resp, err := w.UpdateTags(w.t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: st.GetStateEpoch(), Changes: changes})
	if err != nil {
		w.t.Fatal(err)
	}
	w.known = resp.GetState().GetVersion()
	return resp.GetState()
}

func set(name string, id int64) *dedupv1.TagChange {
	return &dedupv1.TagChange{Name: name, SnapshotId: id}
}

func TestTagsAreSetMovedAndRemoved(t *testing.T) {
	w, first := given(t, 1)
	w.topic.append(0, put(1)...)
	second := w.advance()
	old, now := last(first).GetId(), last(second).GetId()
	st := w.retag(second, set("b", old), set("a", now), set("none", 0))
	if len(st.GetTags()) != 2 || st.GetTags()["b"] != old || st.GetTags()["a"] != now || st.GetVersion() != second.GetVersion()+1 {
		t.Fatalf("version %d tags %v", st.GetVersion(), st.GetTags())
	}
	if same := w.retag(st, set("a", now)); same.GetVersion() != st.GetVersion() {
		t.Fatal("a change that changes nothing made a version")
	}
	if again := w.advance(); again.GetVersion() != st.GetVersion() || len(again.GetTags()) != 2 {
		t.Fatalf("advanced to %v", again)
	}
	w.restart()
	st = w.retag(st, set("a", old), set("b", 0))
	if len(st.GetTags()) != 1 || st.GetTags()["a"] != old {
		t.Fatalf("tags %v", st.GetTags())
	}
	w.now = w.now.Add(3 * time.Hour)
	w.topic.append(0, put(2)...)
	w.advance()
	w.topic.append(0, put(2)...)
	w.now = w.now.Add(3 * time.Hour)
	if st = w.advance(); st.GetSnapshots()[0].GetId() != old {
		t.Fatalf("oldest snapshot %d, want the tagged one", st.GetSnapshots()[0].GetId())
	}
	w.check(st, st.GetSnapshots()[0])
	w.retag(st, set("a", 0))
	w.topic.append(0, put(2)...)
	if st = w.advance(); st.GetSnapshots()[0].GetId() == old {
		t.Fatal("an old snapshot stayed without its tag")
	}
}

func TestTagsThatCannotBe(t *testing.T) {
	w, st := given(t, 1)
	id := last(st).GetId()
	for name, c := range map[string]*dedupv1.TagChange{
		"of no snapshot": set("x", id+1), "main": set("main", id), "without a name": set("", id),
		"too long": set(strings.Repeat("x", 257), id), "not text": set("\xff", id), "removed main": set("main", 0),
	} {
		_, err := w.UpdateTags(t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: st.GetStateEpoch(), Changes: []*dedupv1.TagChange{set("ok", id), c}})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wantKind(t, err, fault.ErrInvalid)
	}
	var many []*dedupv1.TagChange
	for i := range maxTags + 1 {
		many = append(many, set(fmt.Sprint("t", i), id))
	}
	_, err := w.UpdateTags(t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: st.GetStateEpoch(), Changes: many})
	wantKind(t, err, fault.ErrInvalid)
	if got := w.retag(st); len(got.GetTags()) != 0 || got.GetVersion() != st.GetVersion() {
		t.Fatalf("a refused change left %v", got.GetTags())
	}
	_, err = w.UpdateTags(t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: "aaaaaaaaaaaaaaaa"})
	wantKind(t, err, fault.ErrNotFound)
	if err := w.replace(t.Context(), st.GetStateEpoch(), "for a reason"); err != nil {
		t.Fatal(err)
	}
	_, err = w.UpdateTags(t.Context(), &dedupv1.UpdateTagsRequest{StateEpoch: st.GetStateEpoch()})
	wantKind(t, err, fault.ErrRetired)
}

func TestRequirementsOfTags(t *testing.T) {
	w, st := given(t, 1)
	id := last(st).GetId()
	st = w.retag(st, set("a", id))
	for name, c := range map[string]struct {
		require *dedupv1.RefRequirement
		met     bool
	}{
		"main where it is":    {&dedupv1.RefRequirement{Name: "main", SnapshotId: id}, true},
		"main elsewhere":      {&dedupv1.RefRequirement{Name: "main", SnapshotId: id + 1}, false},
		"no main":             {&dedupv1.RefRequirement{Name: "main"}, false},
		"a tag where it is":   {&dedupv1.RefRequirement{Name: "a", SnapshotId: id}, true},
		"a tag elsewhere":     {&dedupv1.RefRequirement{Name: "a", SnapshotId: 1}, false},
		"no tag, there is":    {&dedupv1.RefRequirement{Name: "a"}, false},
		"no tag, there isn't": {&dedupv1.RefRequirement{Name: "b"}, true},
		"a tag that isn't":    {&dedupv1.RefRequirement{Name: "b", SnapshotId: id}, false},
	} {
		_, err := w.UpdateTags(t.Context(), &dedupv1.UpdateTagsRequest{
			StateEpoch: st.GetStateEpoch(), Changes: []*dedupv1.TagChange{set("a", id)}, Requirements: []*dedupv1.RefRequirement{c.require},
		})
		if c.met && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !c.met {
			wantKind(t, err, fault.ErrConflict)
		}
	}
}

// Tags and cuts go through one record: none of them is lost.
func TestTagsAndCutsAtOnce(t *testing.T) {
	w, st := given(t, 1)
	id := last(st).GetId()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 5 {
				_, err := w.UpdateTags(context.Background(), &dedupv1.UpdateTagsRequest{
					StateEpoch: st.GetStateEpoch(), Changes: []*dedupv1.TagChange{set(fmt.Sprint(i, "-", k), id)},
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		w.topic.append(0, put(1)...)
		w.advance()
	}
	wg.Wait()
	st = w.advance()
	if len(st.GetTags()) != 40 || len(st.GetSnapshots()) != 21 {
		t.Fatalf("%d tags, %d snapshots, want 40 and 21", len(st.GetTags()), len(st.GetSnapshots()))
	}
}

// readStore calls after behind the n-th reading of a record.
type readStore struct {
	chainstore.Store
	n     int
	after func()
}

func (s *readStore) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	b, v, err := s.Store.Get(ctx, key)
	if strings.HasPrefix(key, state.RecordPrefix) && s.after != nil {
		if s.n--; s.n == 0 {
			after := s.after
			s.after = nil
			after()
		}
	}
	return b, v, err
}

// A tag that was set between the reading and the writing of a record is not lost, wherever in between.
func TestATagSetMeanwhileIsNotLost(t *testing.T) {
	for n := 1; n <= 2; n++ {
		w, st := given(t, 1)
		w.stop()
		reads := &readStore{Store: w.store, n: n}
		w.store = reads
		w.start()
		id := last(st).GetId()
		reads.after = func() { w.retag(st, set("other", id)) }
		if got := w.retag(st, set("own", id)).GetTags(); len(got) != 2 {
			t.Fatalf("after reading %d: tags %v", n, got)
		}
	}
}
