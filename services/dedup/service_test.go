package dedup

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
)

func TestFirstSnapshotIsTheFold(t *testing.T) {
	w := newWorld(t, 2)
	r := rand.New(rand.NewPCG(1, 1))
	w.topic.append(0, random(r, 75)...)
	w.topic.append(1, random(r, 10)...)
	st := w.advance()
	w.check(st, last(st))
}

// TestHistories runs random programs and compares every kept snapshot with the fold at its cut, after every step.
func TestHistories(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { history(t, seed) })
	}
}

func history(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, 1+r.IntN(3))
	block := 2 * (1 + r.IntN(2))
	w.size(block+r.IntN(3), block)
	w.restart()
	for p := range w.topic.logs {
		w.topic.append(p, random(r, r.IntN(60))...)
	}
	w.topic.append(0, put(1)...)
	var st = w.advance()
	for range 40 {
		p := r.IntN(len(w.topic.logs))
		switch x := r.Float64(); {
		case x < .5:
			w.topic.append(p, random(r, 1+r.IntN(12))...)
			st = w.advance()
		case x < .6:
			w.restart()
		case x < .7:
			w.loseRun(r)
		case x < .75:
			w.topic.starts[p] = max(w.topic.starts[p], start(len(w.topic.logs[p]), r))
			st = w.advance()
		default:
			w.topic.append(p, random(r, 1+r.IntN(3))...)
			st = w.advance()
		}
		w.check(st, last(st))
		w.check(st, st.GetSnapshots()[r.IntN(len(st.GetSnapshots()))])
	}
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
}

// TestManyIncrements publishes so many marks that recent segments are merged and given to their chunks, and runs
// merge over several sizes.
func TestManyIncrements(t *testing.T) {
	w := newWorld(t, 1)
	w.size(10, 6)
	w.restart()
	r := rand.New(rand.NewPCG(3, 3))
	w.topic.append(0, put(1, 2, 3)...)
	w.advance()
	for range 150_000 {
		e := event{layout.Row, r.IntN(3000)}
		if r.IntN(10) == 0 {
			e.class = layout.Delete
		}
		w.topic.append(0, e)
	}
	st := w.advance()
	w.check(st, last(st))
	v := published(w)[0]
	own, most := 0, 0
	for chunk := range layout.Chunks(kafkapos.Range{Start: 0, End: v.Head.End}, 10) {
		c, err := w.Service.store.Chunk(t.Context(), v, int64(chunk.Start)>>10)
		if err != nil {
			t.Fatal(err)
		}
		own, most = own+len(c.Segments), max(most, len(c.Segments))
	}
	if own == 0 || most > 8 || len(v.Root.Recent) > 40 || len(v.Root.Runs) > 30 {
		t.Fatalf("%d own segments, at most %d of a chunk, %d recent ones, %d runs", own, most, len(v.Root.Recent), len(v.Root.Runs))
	}
}

// TestCountsFollowPositions: the walk adds rows below those of a chunk that increments have begun, so that marks move
// to other containers of the deletion vector.
func TestCountsFollowPositions(t *testing.T) {
	w := newWorld(t, 1)
	w.size(17, 14)
	w.restart()
	for i := range 100_000 {
		w.topic.append(0, event{layout.Row, i % 30_000})
	}
	in, err := parseSighting(w.request())
	if err != nil {
		t.Fatal(err)
	}
	rec, _, err := w.current(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	spec := w.spec(&in, rec, nil, 0)
	if err := w.planner.Begin(t.Context(), spec, 0, 40_000); err != nil {
		t.Fatal(err)
	}
	for _, end := range []kafkapos.Offset{90_000, 100_000} {
		v, err := w.planner.Store.View(t.Context(), spec.Log)
		if err != nil {
			t.Fatal(err)
		}
		piece, err := w.planner.PlanIncrement(t.Context(), spec, v, end)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.planner.Publish(t.Context(), spec, piece); err != nil {
			t.Fatal(err)
		}
	}
	st := w.advance()
	w.check(st, last(st))
}
