package dedup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
)

// scans notes the ranges that are read from now on, and answers and forgets them.
func (w *world) scans() func() []string {
	var mu sync.Mutex
	var seen []string
	w.topic.scan = func(rng kafkapos.Range) {
		mu.Lock()
		defer mu.Unlock()
		if !rng.Empty() {
			seen = append(seen, rng.String())
		}
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		out := seen
		seen = nil
		return out
	}
}

// Chunks that are smaller than what is published at a time are read and published together, aligned, by walks and by
// increments; the first one by itself, because nothing is known of their size yet. Every cut is the same as before.
func TestSmallChunksArePublishedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		offsets int
		bytes   int64
		walk    []string
		more    []string
	}{
		"one at a time":     {1, 32 << 20, []string{"[112,120)", "[96,112)", "[80,96)", "[64,80)", "[48,64)", "[32,48)", "[16,32)", "[0,16)"}, []string{"[120,128)", "[128,144)", "[144,150)"}},
		"several":           {64, 32 << 20, []string{"[112,120)", "[64,112)", "[0,64)"}, []string{"[120,128)", "[128,150)"}},
		"all that there is": {1 << 14, 32 << 20, []string{"[112,120)", "[0,112)"}, []string{"[120,150)"}},
		"large ones":        {64, 300, []string{"[112,120)", "[96,112)", "[64,96)", "[32,64)", "[0,32)"}, []string{"[120,128)", "[128,144)", "[144,150)"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.cfg.PublishOffsets, w.cfg.BlockBytes = c.offsets, c.bytes
			w.restart()
			r := rand.New(rand.NewPCG(8, 8))
			w.topic.append(0, put(r.Perm(120)...)...)
			scans := w.scans()
			st := w.advance()
			if got := scans(); fmt.Sprint(got) != fmt.Sprint(c.walk) {
				t.Errorf("walked by %v, want %v", got, c.walk)
			}
			w.check(st, last(st))
			w.topic.append(0, put(r.Perm(30)...)...)
			st = w.advance()
			if got := scans(); fmt.Sprint(got) != fmt.Sprint(c.more) {
				t.Errorf("advanced by %v, want %v", got, c.more)
			}
			w.check(st, last(st))
			w.check(st, st.GetSnapshots()[0])
		})
	}
}

// A reader of a small chunk waits for a walk down to it and no further, and what was published on the way is not read
// again.
func TestAWalkOfManySmallChunksStopsWhereItIsAskedTo(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.cfg.PublishOffsets = 64
	w.restart()
	r := rand.New(rand.NewPCG(9, 9))
	w.topic.append(0, random(r, 200)...)
	st := w.advance()
	list := w.entries(st, last(st))[0] // of 13 chunks
	want := kafkapos.Offset(200)
	for _, i := range []int{11, 9, 5, 7, 1, 0} {
		if _, err := w.readEntry(st, list[i]); err != nil {
			t.Fatal(err)
		}
		low, n, twice := w.topic.offsetsScanned(0)
		want = min(want, kafkapos.Offset(list[i].GetStart()))
		if low != want || n != 200-int(want) || twice != 0 {
			t.Fatalf("after file %d: read down to %d, %d offsets, %d of them twice; want down to %d", i, low, n, twice, want)
		}
	}
	w.checkLazy(st, last(st), r)
}

// A record that stops a walk stops it in its chunk: what lies above is published, although it was read together.
func TestWhatLiesAboveABadChunkIsPublished(t *testing.T) {
	w := newLazyWorld(t, 1)
	w.cfg.PublishOffsets = 64
	w.restart()
	w.topic.append(0, put(1, 2, 3)...)
	w.topic.append(0, event{class: 5}) // layout.Truncate
	w.topic.append(0, put(slices.Repeat([]int{1, 2, 3}, 40)...)...)
	st := w.advance()
	list := w.entries(st, last(st))[0]
	wantKind(t, w.get(t.Context(), list[0]), fault.ErrInvalid)
	p, err := w.GetProgress(t.Context(), &dedupv1.GetProgressRequest{TopicId: w.topicRef().GetTopicId()})
	if err != nil || p.GetWalks()[0].GetFrontier() != 16 {
		t.Fatalf("%v, %v; want everything but the chunk of the record", p, err)
	}
	for _, e := range list[1:] {
		if err := w.get(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}
