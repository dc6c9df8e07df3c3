package dedup

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/chainstore/diskstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// crashSteps is a small life: a first walk over several chunks, increments, a start that moves, many recent segments.
const crashSteps = 12

func crashStep(w *world, r *rand.Rand, step int) {
	switch step {
	case 0:
		w.topic.append(0, random(r, 70)...)
		w.topic.append(1, random(r, 21)...)
	case 6:
		w.topic.starts[0] = 20
	default:
		w.topic.append(step%2, random(r, 3+r.IntN(12))...)
	}
}

// lived runs the life until the store stops. It answers false when it did not stop.
func lived(w *world, r *rand.Rand) (stopped bool) {
	for step := range crashSteps {
		crashStep(w, r, step)
		resp, err := w.Advance(w.t.Context(), w.request())
		if err != nil || resp.GetStaleReason() != "" {
			for rest := step + 1; rest < crashSteps; rest++ {
				crashStep(w, r, rest)
			}
			return true
		}
	}
	return false
}

func published(w *world) []*state.View {
	store := state.NewStore(w.store, 1<<20)
	out := make([]*state.View, len(w.topic.logs))
	rec, _, err := store.Record(w.t.Context(), kafkapos.TopicID([]byte(w.topicRef().GetTopicId())))
	if err != nil {
		return out
	}
	for p := range out {
		if v, err := store.View(w.t.Context(), state.Log{Epoch: rec.Epoch, Partition: kafkapos.Partition(p)}); err == nil {
			out[p] = v
		}
	}
	return out
}

// TestKillAtEveryWrite ends the process after every single write of a life, starts another over what is left, and
// expects the fold at every kept cut, and that nothing published is scanned again. Chunks are published one or four at a
// time.
func TestKillAtEveryWrite(t *testing.T) {
	for _, chunks := range []int{1, 4} {
		t.Run(fmt.Sprint(chunks, " at a time"), func(t *testing.T) { killAtEveryWrite(t, chunks) })
	}
}

func killAtEveryWrite(t *testing.T, chunks int) {
	points := 0
	for n := 0; ; n++ {
		if !killAt(t, n, 16*chunks, func() chainstore.Store { return memstore.New() }, func(s chainstore.Store) chainstore.Store { return s }) {
			break
		}
		points++
	}
	t.Logf("%d crash points", points)
	if points < 100 {
		t.Fatalf("only %d crash points", points)
	}
}

// TestKillOnDisk does the same at some of the writes with the store on disk, which is closed and opened.
func TestKillOnDisk(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for n := 3; ; n += 37 {
		dir := t.TempDir()
		open := func() chainstore.Store {
			s, err := diskstore.Open(dir, log)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var now chainstore.Store
		ok := killAt(t, n, 1+n, func() chainstore.Store { now = open(); return now }, func(s chainstore.Store) chainstore.Store {
			if err := s.(*diskstore.Store).Close(); err != nil {
				t.Fatal(err)
			}
			now = open()
			return now
		})
		if err := now.(*diskstore.Store).Close(); err != nil {
			t.Fatal(err)
		}
		if !ok {
			return
		}
	}
}

var errKilled = errors.New("the process was killed")

func killAt(t *testing.T, n, offsets int, open func() chainstore.Store, reopen func(chainstore.Store) chainstore.Store) bool {
	t.Helper()
	w := newWorld(t, 2)
	w.stop()
	inner := open()
	faulty := chainstoretest.NewFaulty(inner)
	faulty.StopAfter(n)
	w.store, w.cfg.PublishOffsets = faulty, offsets
	// A process that is killed at a write of the store writes nothing to its disk after it.
	w.disk.Fail(func(fsys.Op, string) error {
		if faulty.Stopped() {
			return errKilled
		}
		return nil
	})
	w.start()
	r := rand.New(rand.NewPCG(11, 3))
	stopped := lived(w, r)
	w.stop()
	w.disk.Fail(nil)
	w.disk.Crash()
	w.store = reopen(inner)
	before := published(w)
	w.topic.resetScanned()
	w.start()
	st := w.advance()
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
	for p, v := range before {
		if v == nil {
			continue
		}
		for off := range w.topic.scanned[p] {
			if off >= v.Head.Frontier && off < v.Head.End && off < v.Head.Tail.From {
				t.Fatalf("killed after write %d: partition %d offset %d was published and was scanned again", n, p, off)
			}
		}
	}
	return stopped
}
