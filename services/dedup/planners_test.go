package dedup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// TestPlannersRaceOnOneStore lets two services plan walks and increments of one log from versions that get old, and
// publish them late, in any order, and twice. What is published must at any time be what a fold says.
func TestPlannersRaceOnOneStore(t *testing.T) {
	lost, won := 0, 0
	for seed := range uint64(80) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			l, p := race(t, rand.New(rand.NewPCG(seed, 5)))
			lost, won = lost+l, won+p
		})
	}
	t.Logf("%d plans published, %d were published by others", won, lost)
	if lost == 0 {
		t.Fatal("no plan ever lost")
	}
}

type pending struct {
	by    *advance.Planner
	piece *advance.Piece
}

func race(t *testing.T, r *rand.Rand) (lost, won int) {
	w := newWorld(t, 1)
	w.size(3+r.IntN(3), 2)
	w.cfg.PublishOffsets = 1 << r.IntN(7) // of these chunks one or several at a time
	w.restart()
	w.topic.append(0, random(r, 40+r.IntN(60))...)
	in, err := parseSighting(w.request())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	rec, _, err := w.current(ctx, &in)
	if err != nil {
		t.Fatal(err)
	}
	spec := w.spec(&in, rec, nil, 0)
	other := &advance.Planner{
		Store: state.NewStore(w.store, 1<<20), Runs: w.planner.Runs, Materializer: w.topic, Metrics: w.planner.Metrics,
	}
	planners := []*advance.Planner{w.planner, other}
	if err := w.planner.Begin(ctx, spec, 0, kafkapos.Offset(20+r.IntN(20))); err != nil {
		t.Fatal(err)
	}
	var plans []pending
	for range 60 {
		by := planners[r.IntN(2)]
		if x := r.Float64(); x < .55 || len(plans) == 0 {
			v, err := by.Store.View(ctx, spec.Log)
			if err != nil {
				t.Fatal(err)
			}
			var piece *advance.Piece
			if x < .3 {
				piece, err = by.PlanWalk(ctx, spec, v, v.Head.Start, nil)
			} else {
				piece, err = by.PlanIncrement(ctx, spec, v, v.Head.End+kafkapos.Offset(r.IntN(8)))
			}
			if err != nil && int(v.Head.End)+8 <= len(w.topic.logs[0]) {
				t.Fatal(err)
			}
			if piece != nil {
				plans = append(plans, pending{by, piece})
			}
			continue
		}
		i := r.IntN(len(plans))
		plan := plans[i]
		if r.Float64() < .7 {
			plans = slices.Delete(plans, i, i+1)
		}
		ok, err := plan.by.Publish(ctx, spec, plan.piece)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			won++
		} else {
			lost++
		}
		checkChain(t, w, other.Store, spec)
	}
	st := w.advance()
	w.check(st, last(st))
	return lost, won
}

// checkChain compares what is published of a log with the fold, at every end.
func checkChain(t *testing.T, w *world, store *state.Store, spec *advance.Spec) {
	t.Helper()
	v, err := store.View(t.Context(), spec.Log)
	if err != nil {
		t.Fatal(err)
	}
	log := w.topic.logs[0]
	for chunk := range layout.Chunks(kafkapos.Range{Start: v.Head.Frontier, End: v.Head.End}, spec.ChunkLog2) {
		c, err := store.Chunk(t.Context(), v, int64(chunk.Start)>>spec.ChunkLog2)
		if err != nil || c == nil {
			t.Fatalf("chunk at %d: %v, %v", chunk.Start, c, err)
		}
		chain, err := store.Chain(t.Context(), v, c, state.CurrentView)
		if err != nil {
			t.Fatal(err)
		}
		for e := c.Known.Start + 1; e <= v.Head.End; e++ {
			set, err := chain.DeleteSet(e)
			if err != nil {
				t.Fatal(err)
			}
			for off := c.Known.Start; off < c.Known.End; off++ {
				want := superseded(log, off, e)
				if got := set.Contains(uint32(off - chunk.Start)); got != want {
					t.Fatalf("frontier %d, scanned end %d: offset %d marked %v at end %d, want %v", v.Head.Frontier, v.Head.End, off, got, e, want)
				}
			}
		}
		tally, ok := c.Ledgers[state.CurrentView].At(v.Head.End)
		want, err := chain.Tally(c.Known, v.Head.End)
		if err != nil || !ok || fmt.Sprint(tally) != fmt.Sprint(want) {
			t.Fatalf("chunk %s counts %v, composed %v (%v)", c.Known, tally, want, err)
		}
	}
}

// superseded reports whether a newer event of the key lies below end.
func superseded(log []event, off, end kafkapos.Offset) bool {
	e := log[off]
	if e.class != layout.Row && e.class != layout.Delete {
		return false
	}
	for n := off + 1; n < end; n++ {
		if o := log[n]; o.key == e.key && (o.class == layout.Row || o.class == layout.Delete) {
			return true
		}
	}
	return false
}
