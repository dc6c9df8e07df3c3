package dedup

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// readHalf makes the same life of a lazy table each time: one log is read down to its middle, one not at all but what
// came after the first cut, marks were folded. It answers the world at rest.
func readHalf(t *testing.T) (*world, still) {
	t.Helper()
	w := newLazyWorld(t, 2)
	w.cfg.Fold.Every, w.cfg.Fold.MinMarks = 0, 1
	w.restart()
	r := rand.New(rand.NewPCG(6, 6))
	w.topic.append(0, random(r, 90)...)
	w.topic.append(1, random(r, 60)...)
	for range 4 {
		st := w.advance()
		if _, err := w.readEntry(st, w.entries(st, last(st))[0][3]); err != nil {
			t.Fatal(err)
		}
		w.topic.append(0, random(r, 9)...)
		w.topic.append(1, put(1, 2, 1)...)
		w.now = w.now.Add(2 * time.Hour)
	}
	st := w.advance()
	if w.foldAll() == 0 {
		t.Fatal("nothing was folded")
	}
	w.topic.append(0, put(3, 3)...)
	st = w.advance()
	rooms := 0
	for p, list := range w.entries(st, last(st)) {
		h, _, err := w.Service.store.Head(t.Context(), state.Log{Epoch: st.GetStateEpoch(), Partition: kafkapos.Partition(p)})
		if err != nil || h.Walked() || h.Frontier == h.End {
			t.Fatalf("the head of partition %d is not in the middle: %v, %v", p, h, err)
		}
		for _, e := range list {
			if isRoom(e) {
				rooms++
			}
		}
	}
	if rooms < 3 {
		t.Fatalf("%d rooms", rooms)
	}
	return w, w.rest()
}

// TestAnyDamagedValueOfALazyTableIsRegained flips bits of every value of the state of a lazy table that is read in part,
// cuts it and takes it away, in some places of each. Files that nobody has read are read then, so that the walk goes on over what is damaged.
func TestAnyDamagedValueOfALazyTableIsRegained(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 12))
	w, s := readHalf(t)
	kinds, damages, shown := map[string]int{}, 0, 0
	for name, value := range s.all() {
		kind, _, _ := strings.Cut(name, "/")
		ways := harms(r, len(value), 1)
		r.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
		for _, h := range append(ways[:min(3, len(ways))], harm{cut: -1}) {
			what := fmt.Sprintf("seed %d: %s of %d bytes, %s", seed, name, len(value), h)
			var broken image
			if h.cut < 0 {
				what = fmt.Sprintf("seed %d: %s taken away", seed, name)
				broken = image{maps.Clone(s.values), maps.Clone(s.blobs)}
				delete(broken.values, name)
				delete(broken.blobs, name)
			} else {
				broken = s.with(name, h.of(value))
			}
			s.awake(w, broken.store(t))
			if !w.lookAt(what) {
				shown++
			}
			w.topic.append(damages%2, put(1, 9)...)
			w.lookAt(what + ", then more")
			if kind != "record" && kind != "epoch" || h.cut < 0 {
				w.regains(what)
			}
			kinds[kind]++
			damages++
		}
	}
	t.Logf("%d damages, %d of them showed: %v", damages, shown, kinds)
	for _, kind := range append(state.LogKinds(), "record", "head", "epoch", "topic", "snapshot", "group", "version") {
		if kinds[kind] == 0 {
			t.Errorf("no %s was damaged", kind)
		}
	}
}

// TestAnyDamagedRunOfALazyTableIsMadeAgain flips bits of every run file above the frontiers, cuts it and takes it away;
// then the walk goes on below and looks keys up in it.
func TestAnyDamagedRunOfALazyTableIsMadeAgain(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 13))
	w, s := readHalf(t)
	if len(s.runs) < 2 {
		t.Fatalf("%d run files", len(s.runs))
	}
	damages := 0
	for name, b := range s.runs {
		for i, h := range append(harms(r, len(b), 8), harm{}, harm{}) {
			s.awake(w, s.store(t))
			if i%5 == 4 {
				w.disk = fsys.NewMem()
				w.restart()
			} else {
				w.write(name, h.of(b))
			}
			what := fmt.Sprintf("seed %d: %s of %d bytes, %s", seed, name, len(b), h)
			if !w.lookAt(what) {
				t.Fatalf("%s: not up to date", what)
			}
			for p := range w.topic.logs {
				w.topic.append(p, put(0, 1, 2, 3, 4, 5)...)
			}
			if !w.lookAt(what + ", then more") {
				t.Fatalf("%s, then more: not up to date", what)
			}
			damages++
		}
	}
	t.Logf("%d damages of %d files", damages, len(s.runs))
}
