package dedup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// lazyLife is loads, and reads of some files, which walk down to them, while more comes. It ends with the first error.
func (w *world) lazyLife(r *rand.Rand) error {
	for p := range w.topic.logs {
		w.topic.append(p, random(r, 70)...)
	}
	for step := range 6 {
		w.now = w.now.Add(time.Second)
		resp, err := w.Advance(w.t.Context(), w.request())
		if err != nil {
			return err
		}
		if resp.GetStaleSinceMillis() != 0 {
			return fmt.Errorf("%s: %w", resp.GetStaleReason(), fault.ErrUnavailable)
		}
		st := resp.GetState()
		w.known = st.GetVersion()
		entries, err := w.listed(st)
		if err != nil {
			return err
		}
		if n := len(entries); n > 0 {
			// From high to low, so that every walk has something left to do.
			if _, err := w.readEntry(st, entries[max(0, n-1-2*step)]); err != nil {
				return err
			}
		}
		w.topic.append(step%2, random(r, 5)...)
	}
	return nil
}

// listed answers the entries of the current snapshot.
func (w *world) listed(st *dedupv1.TableState) (out []*dedupv1.ManifestEntry, err error) {
	for _, ref := range last(st).GetGroups() {
		g, err := w.GetManifestGroup(w.t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			return nil, err
		}
		out = append(out, g.GetEntries()...)
	}
	return out, nil
}

// TestKillAtEveryChangeOfALazyTable ends a process at every change of its store and its disk while a lazy table is
// loaded, and walked by reads of its files. The next one reads every kept cut right and scans nothing that was published,
// but the block that a kept cut ends in, which its file encodes otherwise than the newest one.
//
// Chunks are published one or two at a time.
func TestKillAtEveryChangeOfALazyTable(t *testing.T) {
	for _, chunks := range []int{1, 2} {
		t.Run(fmt.Sprint(chunks, " at a time"), func(t *testing.T) { killLazy(t, chunks) })
	}
}

func killLazy(t *testing.T, chunks int) {
	points, kinds := 0, map[string]int{}
	for n := 0; ; n += stride {
		k := &kill{left: n, after: n%2 == 1, kinds: map[string]int{}}
		if !lazyKilled(t, k, n%3 != 0, 16*chunks) {
			kinds = k.kinds
			break
		}
		points++
	}
	t.Logf("%d crash points: %v", points, kinds)
	for _, kind := range []string{"file sync", "file rename", "set head", "set record", "put segment", "put layout", "put rowgroups", "put snapshot", "put group"} {
		if kinds[kind] == 0 {
			t.Errorf("no crash point at %q", kind)
		}
	}
}

// lazyKilled answers false if the life was over before the process was killed.
func lazyKilled(t *testing.T, k *kill, power bool, offsets int) bool {
	t.Helper()
	w := newLazyWorld(t, 2)
	w.stop()
	inner := memstore.New()
	w.store, w.cfg.Parallel, w.cfg.PublishOffsets = killedStore{inner, k}, 1, offsets
	w.disk.Fail(k.disk)
	w.start()
	r := rand.New(rand.NewPCG(31, 7))
	err := w.lazyLife(r)
	if err != nil && k.alive() == nil {
		t.Fatal(err)
	}
	w.stop()
	what := fmt.Sprintf("killed at %v", k.kinds)
	w.disk.Fail(nil)
	if power {
		w.disk.Crash()
	}
	w.store = inner
	before := published(w)
	w.topic.resetScanned()
	w.start()
	st := w.advance()
	for _, snap := range st.GetSnapshots() {
		w.checkLazy(st, snap, r)
	}
	for p, was := range before {
		for off := range w.topic.scanned[p] {
			if was != nil && off >= was.Head.Frontier && off < was.Head.End && off < was.Head.Tail.From && !w.atEnd(st, p, off) {
				t.Fatalf("%s: partition %d offset %d was published and was scanned again", what, p, off)
			}
		}
	}
	w.stop()
	w.stop = func() {}
	return err != nil
}

// atEnd reports whether an offset lies in the block that a kept cut ends in.
func (w *world) atEnd(st *dedupv1.TableState, p int, off kafkapos.Offset) bool {
	block := w.cfg.Tables["orders"].BlockLog2
	return slices.ContainsFunc(st.GetSnapshots(), func(s *dedupv1.Snapshot) bool {
		return s.GetCut()[p].GetEnd()>>block == int64(off)>>block
	})
}
