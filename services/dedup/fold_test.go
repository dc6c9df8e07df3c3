package dedup

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// foldAll folds everything that can be folded and answers the number of marks.
func (w *world) foldAll() int64 {
	w.t.Helper()
	rec, _, err := w.Service.store.Record(w.t.Context(), kafkapos.TopicID(w.topicRef().GetTopicId()))
	if err != nil {
		w.t.Fatal(err)
	}
	plans, err := w.folds(w.t.Context(), rec)
	if err != nil {
		w.t.Fatal(err)
	}
	total := int64(0)
	for _, plan := range plans {
		for from := int64(0); ; {
			n, next, err := w.planner.Fold(w.t.Context(), plan, from)
			if err != nil {
				w.t.Fatal(err)
			}
			if total += n; next == 0 {
				break
			}
			from = next
		}
	}
	return total
}

// unfolded counts the marks that a log's segments hold, and its groups.
func (w *world) unfolded(st *dedupv1.TableState, p int) (marks int64, groups int) {
	w.t.Helper()
	v, err := w.Service.store.View(w.t.Context(), state.Log{Epoch: st.GetStateEpoch(), Partition: kafkapos.Partition(p)})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range v.Root.Recent {
		marks += r.Marks
	}
	for _, ref := range v.Root.Pages {
		page, err := w.Service.store.Page(w.t.Context(), v.Log, v.Root, ref.Number)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range page.Chunks {
			groups += len(c.Groups)
			for _, name := range c.Segments {
				seg, err := w.Service.store.Segment(w.t.Context(), v.Log, name)
				if err != nil {
					w.t.Fatal(err)
				}
				marks += seg.Marks()
			}
		}
	}
	return marks, groups
}

// names answers every name that the kept snapshots hand out, delete files included.
func (w *world) names(st *dedupv1.TableState) map[string]bool {
	w.t.Helper()
	out := map[string]bool{}
	for _, snap := range st.GetSnapshots() {
		for _, ref := range snap.GetGroups() {
			out[fmt.Sprint(snap.GetId(), "/", ref.GetName(), "/", ref.GetAddedSnapshotId())] = true
			g, err := w.GetManifestGroup(w.t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
			if err != nil {
				w.t.Fatal(err)
			}
			for _, e := range g.GetEntries() {
				out[fmt.Sprint(e)] = true
			}
		}
	}
	return out
}

// TestFoldingChangesNoAnswer runs random lives with snapshots that come, go and are tagged, and folds whenever it can.
func TestFoldingChangesNoAnswer(t *testing.T) {
	folded, seed := int64(0), rand.Uint64()
	for i := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) { folded += foldingLife(t, rand.New(rand.NewPCG(seed+i, 1))) })
		if t.Failed() {
			break
		}
	}
	t.Logf("%d marks folded", folded)
	if folded == 0 {
		t.Fatal("nothing was folded")
	}
}

func foldingLife(t *testing.T, r *rand.Rand) (folded int64) {
	w := newWorld(t, 1+r.IntN(2))
	w.size(2+r.IntN(4), 2)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks, w.cfg.Fold.MaxMarks = 0, 1+r.IntN(3), 1+r.IntN(60)
	w.restart()
	for p := range w.topic.logs {
		w.topic.append(p, random(r, 10+r.IntN(60))...)
	}
	st := w.advance()
	for step := range 25 {
		switch x := r.IntN(100); {
		case x < 45:
			p := r.IntN(len(w.topic.logs))
			w.topic.append(p, random(r, 1+r.IntN(20))...)
		case x < 60:
			w.now = w.now.Add(time.Duration(r.IntN(50)) * time.Minute)
		case x < 70:
			snap := st.GetSnapshots()[r.IntN(len(st.GetSnapshots()))]
			st = w.retag(st, set(fmt.Sprint("t", r.IntN(4)), snap.GetId()))
		case x < 74:
			st = w.retag(st, set(fmt.Sprint("t", r.IntN(4)), 0))
		case x < 80:
			w.restart()
		case x < 85:
			if err := w.garbage.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		st = w.advance()
		before := w.names(st)
		folded += w.foldAll()
		if step%3 == 0 {
			w.restart() // what is composed and cached says nothing
		}
		again := w.advance()
		if after := w.names(again); again.GetVersion() != st.GetVersion() || !maps.Equal(before, after) {
			t.Fatalf("step %d: folding changed names:\n%v\n%v", step, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
		for _, snap := range st.GetSnapshots() {
			w.check(st, snap)
		}
	}
	return folded
}

// What no kept snapshot tells apart is one group, and an end in between is retired: not wrong, not empty.
func TestBetweenKeptCutsNothingIsLeft(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.restart()
	w.topic.append(0, put(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)...)
	st := w.advance()
	for _, k := range []int{1, 2, 3, 4} {
		w.topic.append(0, put(k)...) // marks (0,16) (1,17) (2,18) (3,19)
		w.now = w.now.Add(10 * time.Minute)
		st = w.advance()
	}
	st = w.retag(st, set("kept", st.GetSnapshots()[1].GetId())) // ends at 17
	w.now = w.now.Add(2 * time.Hour)
	w.topic.append(0, put(30)...)
	w.advance()
	w.now = w.now.Add(2 * time.Hour)
	w.topic.append(0, put(31)...)
	st = w.advance()
	if n := len(st.GetSnapshots()); n != 3 {
		t.Fatalf("%d snapshots", n)
	}
	if n := w.foldAll(); n != 4 {
		t.Fatalf("%d marks folded", n)
	}
	if marks, groups := w.unfolded(st, 0); marks != 0 || groups != 2 {
		t.Fatalf("%d marks and %d groups are left", marks, groups)
	}
	w.restart()
	var d objectname.DataFile
	for key := range w.keys(st, last(st)) {
		if obj, err := objectname.Parse(key); err == nil && obj.(objectname.DataFile).Range.Start == 0 {
			d = obj.(objectname.DataFile)
		}
	}
	for e, want := range map[kafkapos.Offset]error{16: fault.ErrNotFound, 17: nil, 18: fault.ErrRetired, 19: fault.ErrRetired, 20: nil} {
		_, err := w.object(objectname.Deletes{Data: d, Dialect: objectname.V2, E: e}.Key())
		if want == nil && err != nil {
			t.Errorf("at %d: %v", e, err)
		} else if want != nil {
			wantKind(t, err, want)
		}
	}
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
}

// Marks that a query may still need, because its snapshot was dropped from between others a moment ago, stay marks.
func TestThinnedSnapshotsAreServedForAWhile(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.restart()
	w.topic.append(0, put(1, 2, 3, 4, 5, 6)...)
	w.advance()
	w.topic.append(0, put(1)...)
	thinned := w.advance()
	for range 3 {
		w.topic.append(0, put(2)...)
		w.now = w.now.Add(10 * time.Second)
		w.advance()
	}
	w.now = w.now.Add(30 * time.Minute)
	w.topic.append(0, put(3)...)
	st := w.advance()
	w.topic.append(0, put(3)...)
	st = w.advance()
	if slices.ContainsFunc(st.GetSnapshots(), func(s *dedupv1.Snapshot) bool { return s.GetId() == last(thinned).GetId() }) {
		t.Fatal("the snapshot was not thinned out")
	}
	w.foldAll()
	w.restart()
	w.check(st, last(thinned))
}

// hookedStore calls before ahead of every compare-and-set of a head.
type hookedStore struct {
	chainstore.Store
	before func()
}

func (s *hookedStore) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (chainstore.Version, error) {
	if before := s.before; before != nil && strings.HasPrefix(key, "head/") {
		s.before = nil
		before()
	}
	return s.Store.CompareAndSet(ctx, key, old, value)
}

// A pass that loses to increments commits what it had planned; names of a version that is past are not used again.
func TestFoldingThatLosesIsRebased(t *testing.T) {
	w, st := given(t, 1)
	w.stop()
	hooked := &hookedStore{Store: w.store}
	w.store, w.cfg.Fold.Every, w.cfg.Fold.MinMarks = hooked, 0, 1
	w.start()
	want, _ := w.unfolded(st, 0)
	hooked.before = func() {
		w.topic.append(0, put(1, 2, 9)...)
		w.advance()
		// What the pass has written so far is collected before it goes on.
		for range 3 {
			if err := w.garbage.Collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(2 * time.Hour)
		}
	}
	if n := w.foldAll(); n != want || n == 0 {
		t.Fatalf("%d of %d marks folded", n, want)
	}
	w.restart()
	st = w.advance()
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
	if marks, _ := w.unfolded(st, 0); marks == 0 || marks > 3 {
		t.Fatalf("%d marks are left, want those of the increment", marks)
	}
}

// What was folded away is collected when its retention is over.
func TestFoldedSegmentsAreCollected(t *testing.T) {
	w, st := given(t, 1)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.restart()
	prefix := state.LogPrefix(state.SegmentKind, st.GetStateEpoch(), 0)
	before, err := w.store.ListBlobs(t.Context(), prefix)
	if err != nil || len(before) == 0 {
		t.Fatalf("%v, %v", before, err)
	}
	w.foldAll()
	for range 3 {
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(2 * time.Hour)
	}
	if after, err := w.store.ListBlobs(t.Context(), prefix); err != nil || len(after) != 0 {
		t.Fatalf("%v are left, %v", after, err)
	}
	w.restart()
	w.check(st, last(st))
}

// Segments of a chunk's own, made when many recent marks are spread, reach over the horizon: what lies above stays.
func TestFoldingKeepsWhatLiesAboveTheHorizon(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.size(14, 10)
	w.restart()
	r := rand.New(rand.NewPCG(3, 3))
	w.topic.append(0, random(r, 10)...)
	w.advance()
	w.topic.append(0, random(r, 35_000)...)
	w.topic.append(0, put(1000)...) // so that the chunk is listed ever after
	w.topic.append(0, random(r, 10_000)...)
	w.advance()
	w.now = w.now.Add(10 * time.Minute)
	w.topic.append(0, random(r, 45_000)...)
	st := w.advance()
	w.now = w.now.Add(55 * time.Minute)
	w.topic.append(0, random(r, 10)...)
	st = w.advance()
	if n := len(st.GetSnapshots()); n != 3 {
		t.Fatalf("%d snapshots, want all but the first", n)
	}
	if n := w.foldAll(); n == 0 {
		t.Fatal("nothing was folded")
	}
	if left, _ := w.unfolded(st, 0); left < 20_000 {
		t.Fatalf("%d marks are left", left)
	}
	w.restart()
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
}
