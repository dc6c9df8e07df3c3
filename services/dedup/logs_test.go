package dedup

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// given is a world with some records published.
func given(t *testing.T, partitions int) (*world, *dedupv1.TableState) {
	t.Helper()
	w := newWorld(t, partitions)
	r := rand.New(rand.NewPCG(9, 9))
	for p := range partitions {
		w.topic.append(p, random(r, 40)...)
		w.topic.append(p, put(1, 2, 3)...)
	}
	return w, w.advance()
}

// wantReplaced expects another state epoch that shows the fold, and that the old one is refused with the reason.
func (w *world) wantReplaced(old *dedupv1.TableState, reason string) *dedupv1.TableState {
	w.t.Helper()
	st := w.advance()
	if st.GetStateEpoch() == old.GetStateEpoch() {
		w.t.Fatal("the state epoch is the old one")
	}
	w.check(st, last(st))
	for key := range w.keysOfOld(old) {
		_, err := w.DescribeDataFile(w.t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: key})
		wantKind(w.t, err, fault.ErrRetired)
		if !strings.Contains(err.Error(), reason) {
			w.t.Fatalf("error %q, want one that says %q", err, reason)
		}
	}
	_, err := w.GetTable(w.t.Context(), &dedupv1.GetTableRequest{StateEpoch: old.GetStateEpoch()})
	wantKind(w.t, err, fault.ErrRetired)
	return st
}

// keysOfOld answers data keys of a state epoch that may be gone.
func (w *world) keysOfOld(st *dedupv1.TableState) map[string]bool {
	w.t.Helper()
	out := map[string]bool{}
	for _, ref := range last(st).GetGroups() {
		g, err := w.Service.store.ManifestGroup(w.t.Context(), st.GetStateEpoch(), ref.GetName())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range g.GetEntries() {
			out[e.GetDataKey()] = true
		}
	}
	if len(out) == 0 {
		w.t.Fatal("no file")
	}
	return out
}

func TestTopicCreatedAnew(t *testing.T) {
	w, old := given(t, 1)
	w.topic.logs[0] = put(7, 8, 7)
	w.id, w.known = 2, 0
	st := w.wantReplaced(old, "created anew")
	if bytes.Equal(st.GetCheckKey(), old.GetCheckKey()) {
		t.Fatal("the key of the names is the old one")
	}
}

func TestLogCutOff(t *testing.T) {
	w, old := given(t, 2)
	w.topic.logs[1] = w.topic.logs[1][:30]
	st := w.wantReplaced(old, "cut off")
	if st.GetVersion() <= old.GetVersion() {
		t.Fatalf("version %d after %d", st.GetVersion(), old.GetVersion())
	}
}

func TestLogCutOffAndGrownAgain(t *testing.T) {
	w, old := given(t, 1)
	n := len(w.topic.logs[0])
	w.topic.logs[0] = append(w.topic.logs[0][:n-2:n-2], put(8, 9, 10, 11)...)
	w.topic.epochs[0] = 1
	w.wantReplaced(old, "cut off or replaced")
}

func TestLeaderEpochFallsAndTheLogIsAnother(t *testing.T) {
	w, old := given(t, 1)
	w.topic.epochs[0] = 5
	w.topic.append(0, put(1)...)
	if st := w.advance(); st.GetStateEpoch() != old.GetStateEpoch() {
		t.Fatal("a new leader of the same log made a new state epoch")
	}
	old = w.advance()
	w.topic.epochs[0] = 4
	w.topic.logs[0][len(w.topic.logs[0])-1].key = 99
	w.wantReplaced(old, "cut off or replaced")
}

// A sighting that is late says that the log went back. What was published is still there: nothing happens.
func TestLateSighting(t *testing.T) {
	w, old := given(t, 1)
	early := w.request()
	w.topic.epochs[0] = 1
	w.topic.append(0, put(5)...)
	old = w.advance()
	resp, err := w.Advance(t.Context(), early)
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetState().GetStateEpoch() != old.GetStateEpoch() || last(resp.GetState()).GetId() != last(old).GetId() {
		t.Fatalf("a late sighting changed the state: %v", resp)
	}
}

func TestKilledBetweenGivingUpAndBeginning(t *testing.T) {
	w, old := given(t, 1)
	if err := w.replace(t.Context(), old.GetStateEpoch(), "for a reason"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wantReplaced(old, "for a reason")
}

func TestStateRolledBack(t *testing.T) {
	w, old := given(t, 1)
	w.known = old.GetVersion() + 7
	st := w.wantReplaced(old, "rolled back")
	if st.GetVersion() <= old.GetVersion()+7 {
		t.Fatalf("version %d, %d was seen", st.GetVersion(), old.GetVersion()+7)
	}
	if again := w.advance(); again.GetStateEpoch() != st.GetStateEpoch() {
		t.Fatal("and once more")
	}
}

func TestStateLost(t *testing.T) {
	w, old := given(t, 1)
	w.stop()
	w.store = memstore.New()
	w.start()
	st := w.advance()
	if st.GetStateEpoch() == old.GetStateEpoch() || st.GetVersion() <= old.GetVersion() {
		t.Fatalf("state %s version %d after %s version %d", st.GetStateEpoch(), st.GetVersion(), old.GetStateEpoch(), old.GetVersion())
	}
	w.check(st, last(st))
}

func TestPartitionsAdded(t *testing.T) {
	w, old := given(t, 1)
	w.topic.logs = append(w.topic.logs, put(1))
	w.topic.starts, w.topic.epochs = append(w.topic.starts, 0), append(w.topic.epochs, 0)
	w.topic.resetScanned()
	w.topic.append(0, put(1)...)
	resp, err := w.Advance(t.Context(), w.request())
	if err != nil {
		t.Fatal(err)
	}
	if last(resp.GetState()).GetId() != last(old).GetId() || !strings.Contains(resp.GetStaleReason(), "partitions") || resp.GetStaleSinceMillis() == 0 {
		t.Fatalf("answer %v, want the last cut and the reason", resp)
	}
}

// Nothing was shown yet, so nothing can show twice.
func TestPartitionsAddedBeforeTheFirstSnapshot(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.append(0, put(1, 2, 3)...)
	w.topic.fail = func(kafkapos.Partition, kafkapos.Range) error { return fault.ErrUnavailable }
	_, err := w.Advance(t.Context(), w.request())
	wantKind(t, err, fault.ErrUnavailable)
	w.topic.fail = nil
	w.topic.addPartition(put(1)...)
	st := w.advance()
	w.check(st, last(st))
	if n := len(last(st).GetCut()); n != 2 {
		t.Fatalf("%d partitions", n)
	}
}

func TestPartitionWithoutLeaderKeepsItsEnd(t *testing.T) {
	w, old := given(t, 2)
	w.topic.append(0, put(4, 4)...)
	w.topic.append(1, put(5)...)
	req := w.request()
	req.Logs[1] = &dedupv1.LogState{Partition: 1, LeaderEpoch: -1, Offline: true}
	resp, err := w.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	cut := last(resp.GetState()).GetCut()
	if cut[0].GetEnd() != last(old).GetCut()[0].GetEnd()+2 || cut[1].GetEnd() != last(old).GetCut()[1].GetEnd() {
		t.Fatalf("cut %v after %v", cut, last(old).GetCut())
	}
	if !strings.Contains(resp.GetStaleReason(), "partition 1 has no leader") {
		t.Fatalf("reason %q", resp.GetStaleReason())
	}
	w.check(resp.GetState(), last(resp.GetState()))
}

func TestBadRecordStopsItsPartition(t *testing.T) {
	w, _ := given(t, 2)
	at := len(w.topic.logs[0]) + 1
	w.topic.append(0, event{layout.Row, 1}, event{layout.Bad, 0}, event{layout.Row, 1})
	w.topic.append(1, put(5)...)
	for range 2 {
		resp, err := w.Advance(t.Context(), w.request())
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("partition 0 offset %d: value is no JSON", at); !strings.Contains(resp.GetStaleReason(), want) {
			t.Fatalf("reason %q, want %q", resp.GetStaleReason(), want)
		}
		cut := last(resp.GetState()).GetCut()
		if cut[0].GetEnd() != int64(at) || cut[1].GetEnd() != int64(len(w.topic.logs[1])) {
			t.Fatalf("cut %v, want the partition to stop at %d", cut, at)
		}
		w.check(resp.GetState(), last(resp.GetState()))
	}
	if n := w.topic.scanned[0][kafkapos.Offset(at)]; n != 1 {
		t.Fatalf("the bad record was read %d times", n)
	}
	w.cfg.OnBadRecord = BadRecordSkip
	w.restart()
	st := w.advance()
	w.check(st, last(st))
}

func TestBadRecordInTheFirstWalk(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.append(0, put(1, 2, 3)...)
	w.topic.append(0, event{layout.Bad, 0})
	w.topic.append(0, put(1, 2, 3)...)
	for range 2 {
		_, err := w.Advance(t.Context(), w.request())
		wantKind(t, err, fault.ErrInvalid)
		if !strings.Contains(err.Error(), "partition 0 offset 3: value is no JSON") {
			t.Fatalf("error %q", err)
		}
	}
}

func TestTruncateEventIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.cfg.OnBadRecord = BadRecordSkip
	w.restart()
	w.topic.append(0, put(1, 2)...)
	w.topic.append(0, event{layout.Truncate, 0})
	_, err := w.Advance(t.Context(), w.request())
	wantKind(t, err, fault.ErrInvalid)
	if !strings.Contains(err.Error(), "offset 2: a truncate event") {
		t.Fatalf("error %q", err)
	}
}

func TestEmptyTopicThenRecords(t *testing.T) {
	w := newWorld(t, 2)
	w.cfg.Tables = nil
	w.restart()
	st := w.advance()
	if len(last(st).GetGroups()) != 0 {
		t.Fatalf("groups %v of nothing", last(st).GetGroups())
	}
	r := rand.New(rand.NewPCG(4, 4))
	for range 3 {
		w.topic.append(1, random(r, 30)...)
		next := w.advance()
		if next.GetStateEpoch() != st.GetStateEpoch() {
			t.Fatal("records made a new state epoch")
		}
		w.check(next, last(next))
	}
}

func TestTopicWithoutRecordAndSchema(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.noData = true
	_, err := w.Advance(t.Context(), w.request())
	wantKind(t, err, fault.ErrUnavailable)
}

// Retention can remove everything that was published and more while nobody looks.
func TestLogStartPassesTheScannedEnd(t *testing.T) {
	w, old := given(t, 1)
	w.topic.append(0, random(rand.New(rand.NewPCG(5, 5)), 60)...)
	w.topic.starts[0] = kafkapos.Offset(last(old).GetCut()[0].GetEnd()) + 11
	st := w.advance()
	if st.GetStateEpoch() != old.GetStateEpoch() {
		t.Fatal("retention made a new state epoch")
	}
	if len(st.GetSnapshots()) != 1 {
		t.Fatalf("%d snapshots, want only the one that can be read", len(st.GetSnapshots()))
	}
	w.check(st, last(st))
	for key := range w.keysOfOld(old) {
		_, err := w.DescribeDataFile(t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: key})
		wantKind(t, err, fault.ErrRetired)
	}
}

func TestStartRule(t *testing.T) {
	rule := startRule{finite: true, percent: 10, chunkLog2: 8, blockLog2: 4}
	for _, c := range []struct {
		name         string
		rule         startRule
		start, end   kafkapos.Offset
		present, got kafkapos.Offset
	}{
		{"a log that starts at 0 is shown whole", rule, 0, 1000, -1, 0},
		{"without retention the start is the log start", startRule{chunkLog2: 8, blockLog2: 4}, 5, 1000, -1, 5},
		{"a margin of a block, to a block", rule, 1, 1000, -1, 32},
		{"a margin of a block, to a chunk", rule, 235, 10000, -1, 256},
		{"a margin of a tenth, exactly", rule, 3, 24, -1, 5},
		{"a log too short for a margin", rule, 3, 9, -1, 3},
		{"an empty log", rule, 9, 9, -1, 9},
		{"stays while half of the margin is left", rule, 20, 1000, 32, 32},
		{"moves then", rule, 25, 1000, 32, 48},
		{"never back", rule, 1, 1000, 64, 64},
		{"a late sighting of the log start", rule, 0, 1000, 64, 64},
	} {
		if got := c.rule.next(logState{start: c.start, end: c.end}, c.present); got != c.got {
			t.Errorf("%s: start %d for [%d,%d) and %d, want %d", c.name, got, c.start, c.end, c.present, c.got)
		}
	}
}
