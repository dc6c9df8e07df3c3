package dedup

import (
	"errors"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// What was cut off is written again with the same keys in the same order, so that only the leader epoch tells. A leader
// that has lost nothing changes nothing.
func TestLogCutOffAndWrittenAgainWithTheSameKeys(t *testing.T) {
	w, old := given(t, 1)
	end := kafkapos.Offset(len(w.topic.logs[0]))
	w.topic.elect(0, end)
	w.topic.append(0, put(4, 5)...)
	if st := w.advance(); st.GetStateEpoch() != old.GetStateEpoch() {
		t.Fatal("a new leader of the same log made a new state epoch")
	}
	old = w.advance()
	again := w.topic.logs[0][end-1:]
	w.topic.elect(0, end-1)
	w.topic.append(0, again...)
	w.wantReplaced(old, "cut off or replaced")
}

// A table that is stale because partitions were added does not go on showing what was cut off.
func TestLogCutOffAfterPartitionsWereAdded(t *testing.T) {
	w, old := given(t, 1)
	w.topic.logs, w.topic.starts = append(w.topic.logs, put(9)), append(w.topic.starts, 0)
	w.topic.epochs, w.topic.elected = append(w.topic.epochs, 0), append(w.topic.elected, nil)
	w.topic.resetScanned()
	resp, err := w.Advance(t.Context(), w.request())
	if err != nil || resp.GetStaleSinceMillis() == 0 || resp.GetState().GetStateEpoch() != old.GetStateEpoch() {
		t.Fatalf("with a partition more: %v, %v", resp, err)
	}
	end := kafkapos.Offset(len(w.topic.logs[0]))
	again := w.topic.logs[0][end-1:]
	w.topic.elect(0, end-1)
	w.topic.append(0, again...)
	w.wantReplaced(old, "cut off or replaced")
}

// A lazy table of which nothing was read has no fingerprint.
func TestUnreadLogCutOffAndWrittenAgain(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.Plan, w.cfg.OnBadRecord = PlanLazy, BadRecordSkip
	w.restart()
	w.topic.append(0, put(1, 2, 3, 4, 5, 6, 7)...)
	old := w.advance()
	w.topic.elect(0, 4)
	w.topic.append(0, put(1, 2, 3)...)
	if st := w.advance(); st.GetStateEpoch() == old.GetStateEpoch() {
		t.Fatal("the state epoch is the old one")
	}
}

// A writer has seen a log before it was cut off and reads it after: what it reads does not continue what is published.
func TestSightingOfALeaderThatIsGone(t *testing.T) {
	w, old := given(t, 1)
	n := len(w.topic.logs[0])
	w.topic.append(0, put(6, 7, 8)...)
	early := w.request()
	w.topic.elect(0, kafkapos.Offset(n-5))
	w.topic.append(0, put(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8)...)
	resp, err := w.Advance(t.Context(), early)
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetStaleSinceMillis() == 0 || last(resp.GetState()).GetId() != last(old).GetId() {
		t.Fatalf("offsets of two leaders are in one cut: %v", resp)
	}
	w.wantReplaced(old, "cut off or replaced")
}

// A writer has read what was cut off then, and comes with it after another has found that the log continues.
func TestLateWriterOfALeaderThatIsGone(t *testing.T) {
	w, _ := given(t, 1)
	end := kafkapos.Offset(len(w.topic.logs[0]))
	w.topic.append(0, put(6, 7, 8)...)
	spec, late := w.planned(0)
	w.topic.elect(0, end)
	w.advance()
	if ok, err := w.planner.Publish(t.Context(), spec, late); ok || !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("what was cut off is published: %v, %v", ok, err)
	}
	w.topic.append(0, put(1, 2, 3, 4)...)
	st := w.advance()
	w.check(st, last(st))
}

// Between the look at what is published and the note that it is there, more of what was cut off is published: it is
// looked at again.
func TestLogIsLookedAtUntilNothingIsPublishedMeanwhile(t *testing.T) {
	w, old := given(t, 1)
	end := kafkapos.Offset(len(w.topic.logs[0]))
	w.topic.append(0, put(6, 7, 8)...)
	spec, late := w.planned(0)
	w.topic.elect(0, end)
	w.topic.append(0, put(6, 7, 8)...)
	looked := false
	w.topic.scan = func(rng kafkapos.Range) {
		if !looked && rng.End == end {
			looked = true
			if ok, err := w.planner.Publish(t.Context(), spec, late); !ok || err != nil {
				t.Errorf("the late piece: %v, %v", ok, err)
			}
		}
	}
	w.wantReplaced(old, "cut off or replaced")
	if !looked {
		t.Fatal("nothing was looked at")
	}
}

// Two writers begin a log under two leaders: what the later one has read is not published before it has looked at what
// the other has begun.
func TestLogBegunUnderALeaderThatIsGone(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.append(0, put(1, 2, 3, 4, 5, 6)...)
	early, err := parseSighting(w.request())
	if err != nil {
		t.Fatal(err)
	}
	rec, _, err := w.current(t.Context(), &early)
	if err == nil {
		err = w.planner.Begin(t.Context(), w.spec(&early, rec, nil, 0), 0, 6)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.topic.elect(0, 6)
	w.topic.append(0, put(1, 7)...)
	spec, piece := w.planned(0)
	if ok, err := w.planner.Publish(t.Context(), spec, piece); ok || !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("published under a leader that the head does not know: %v, %v", ok, err)
	}
	st := w.advance()
	if st.GetStateEpoch() != rec.Epoch {
		t.Fatal("another state epoch, and nothing was lost")
	}
	w.check(st, last(st))
}
