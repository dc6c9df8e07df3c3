package dedup

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// pausingStore calls before ahead of every compare-and-set.
type pausingStore struct {
	chainstore.Store
	before func(key string)
}

func (s *pausingStore) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (chainstore.Version, error) {
	if s.before != nil {
		s.before(key)
	}
	return s.Store.CompareAndSet(ctx, key, old, value)
}

// A writer has written everything and is paused before its compare-and-set, for longer than unnamed things are left
// alone. Nobody has overtaken it: what it is about to name is still there.
func TestNothingIsCollectedThatALateWriterMayStillName(t *testing.T) {
	for _, kind := range []string{"head/", "record/"} {
		t.Run(kind, func(t *testing.T) {
			w, old := given(t, 1)
			w.stop()
			store := &pausingStore{Store: w.store}
			w.store = store
			w.start()
			paused := 0
			store.before = func(key string) {
				if !strings.HasPrefix(key, kind) {
					return
				}
				paused++
				for range 3 {
					if err := w.garbage.Collect(t.Context()); err != nil {
						t.Error(err)
					}
					w.sleep(2 * time.Hour)
				}
			}
			w.topic.append(0, put(1, 2, 3)...)
			st := w.advance()
			if st.GetStateEpoch() != old.GetStateEpoch() || paused == 0 {
				t.Fatalf("state epoch %s after %s, %d pauses", st.GetStateEpoch(), old.GetStateEpoch(), paused)
			}
			w.check(st, last(st))
			store.before = nil
			w.restart()
			w.topic.append(0, put(2, 5)...)
			st = w.advance()
			if st.GetStateEpoch() != old.GetStateEpoch() {
				t.Fatal("what was published is lost")
			}
			w.check(st, last(st))
		})
	}
}

// A writer is paused before its compare-and-set of a head while another goes further: the head does not go back.
func TestALateHeadLoses(t *testing.T) {
	w, _ := given(t, 1)
	w.stop()
	store := &pausingStore{Store: w.store}
	w.store = store
	w.start()
	w.topic.append(0, put(1, 2, 3)...)
	request := w.request()
	overtaken := false
	store.before = func(key string) {
		if overtaken || !strings.HasPrefix(key, "head/") {
			return
		}
		overtaken = true
		other := *w
		other.store = store.Store
		other.start()
		defer other.stop()
		w.topic.append(0, put(4, 5)...)
		other.advance()
	}
	resp, err := w.Advance(t.Context(), request)
	if err != nil || !overtaken {
		t.Fatalf("overtaken %v: %v", overtaken, err)
	}
	head, _, err := w.Service.store.Head(t.Context(), state.Log{Epoch: resp.GetState().GetStateEpoch()})
	if err != nil || int(head.End) != len(w.topic.logs[0]) {
		t.Fatalf("the head ends at %v of %d: %v", head, len(w.topic.logs[0]), err)
	}
}
