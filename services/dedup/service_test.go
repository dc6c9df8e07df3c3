package dedup

import (
	"fmt"
	"math/rand/v2"
	"testing"
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
