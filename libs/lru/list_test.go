package lru_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/lru"
)

// TestAgainstAList compares the cache with a slice in the order of use.
func TestAgainstAList(t *testing.T) {
	type entry struct {
		key  int
		cost int64
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := lru.New[int, int](20)
		var want []entry // oldest first
		for range 500 {
			key := r.IntN(12)
			at := slices.IndexFunc(want, func(e entry) bool { return e.key == key })
			if r.IntN(2) == 0 {
				v, ok := c.Get(key)
				if ok != (at >= 0) || ok && v != key*10 {
					t.Fatalf("seed %d: get %d: %d, %v; want %v", seed, key, v, ok, want)
				}
				if ok {
					used := want[at]
					want = append(slices.Delete(want, at, at+1), used)
				}
				continue
			}
			cost := r.Int64N(23)
			c.Add(key, key*10, cost)
			if at >= 0 {
				want = slices.Delete(want, at, at+1)
			}
			if cost > 20 {
				continue
			}
			want = append(want, entry{key, cost})
			for {
				total := int64(0)
				for _, e := range want {
					total += e.cost
				}
				if total <= 20 {
					break
				}
				want = want[1:]
			}
		}
		if n, _ := c.Size(); n != len(want) {
			t.Fatalf("seed %d: %d items, want %d", seed, n, len(want))
		}
	}
}
