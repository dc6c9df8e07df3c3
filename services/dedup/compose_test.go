package dedup

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/kafkapos"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// readsStore counts the blobs that are read, by kind.
type readsStore struct {
	chainstore.Store
	mu    sync.Mutex
	kinds map[string]int
}

func (s *readsStore) GetBlob(ctx context.Context, name string) ([]byte, error) {
	kind, _, _ := strings.Cut(name, "/")
	s.mu.Lock()
	s.kinds[kind]++
	s.mu.Unlock()
	return s.Store.GetBlob(ctx, name)
}

// TestNoManifestComposesABitmap publishes an increment that changes most of many chunks, and then, by a process that has
// nothing in memory, the cut that shows it, and reads all manifests and the table: no segment, folded group or layout is
// read for it. One delete file reads them.
func TestNoManifestComposesABitmap(t *testing.T) {
	const chunks = 300
	w := newWorld(t, 1)
	w.size(4, 2)
	w.restart()
	for key := range chunks * 16 {
		w.topic.append(0, put(key)...)
	}
	w.advance()
	for chunk := 0; chunk < chunks; chunk += 2 {
		w.topic.append(0, put(16*chunk)...)
	}
	in, err := parseSighting(w.request())
	if err != nil {
		t.Fatal(err)
	}
	rec, version, err := w.current(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	for again := true; again; {
		again = w.increment(0)
	}
	w.stop()
	reads := &readsStore{Store: w.store, kinds: map[string]int{}}
	w.store = reads
	w.start()
	next, err := w.cuts.Cut(t.Context(), rec, version, w.now, nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := w.tableState(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	var some *dedupv1.ManifestEntry
	deletes := 0
	for _, ref := range last(st).GetGroups() {
		g, err := w.GetManifestGroup(t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range g.GetEntries() {
			if e.GetDeletes() != nil {
				some = e
				deletes++
			}
		}
	}
	if deletes != chunks/2 {
		t.Fatalf("%d files with deletes, want %d", deletes, chunks/2)
	}
	for _, kind := range []string{state.SegmentKind, state.FoldKind, state.LayoutKind} {
		if n := reads.kinds[kind]; n != 0 {
			t.Errorf("%d blobs of kind %s were read", n, kind)
		}
	}
	t.Logf("read for a cut and its manifests: %v", reads.kinds)
	if _, err := w.file(st, some); err != nil {
		t.Fatal(err)
	}
	if reads.kinds[state.SegmentKind] == 0 || reads.kinds[state.LayoutKind] == 0 {
		t.Errorf("a delete file read %v", reads.kinds)
	}
	w.check(st, last(st))
}

// planned is what a writer has planned that has read all of a partition, and has published nothing of it yet; without a
// piece when there is nothing new.
func (w *world) planned(p kafkapos.Partition) (*advance.Spec, *advance.Piece) {
	w.t.Helper()
	in, err := parseSighting(w.request())
	if err != nil {
		w.t.Fatal(err)
	}
	rec, _, err := w.current(w.t.Context(), &in)
	if err != nil {
		w.t.Fatal(err)
	}
	spec := w.spec(&in, rec, nil, p)
	v, err := w.Service.store.View(w.t.Context(), spec.Log)
	if err != nil {
		w.t.Fatal(err)
	}
	piece, err := w.planner.PlanIncrement(w.t.Context(), spec, v, in.logs[p].end)
	if err != nil {
		w.t.Fatal(err)
	}
	return spec, piece
}

// increment publishes the next increment of a partition and no cut. It answers false when there is none.
func (w *world) increment(p kafkapos.Partition) bool {
	w.t.Helper()
	spec, piece := w.planned(p)
	if piece == nil {
		return false
	}
	if ok, err := w.planner.Publish(w.t.Context(), spec, piece); !ok || err != nil {
		w.t.Fatal(ok, err)
	}
	return true
}
