package parquetio

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/column"
)

// byMap is the dullest way to number values; nil under the same rule as the enumerator's.
func byMap(n int, key func(int) string) (first, indexes []int32) {
	seen := map[string]int32{}
	for i := range n {
		number, ok := seen[key(i)]
		if !ok {
			number = int32(len(first))
			seen[key(i)] = number
			first = append(first, int32(i))
			if len(first) > dictDistinct || i >= dictProbe && 2*len(first) > i {
				return nil, nil
			}
		}
		indexes = append(indexes, number)
	}
	return first, indexes
}

func TestTheEnumeratorNumbersByFirstAppearance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	e := enumerator{key: newHashKey()}
	for round := range 16 {
		rows, distinct := 1+r.IntN(100_000), 1+r.IntN(50_000)
		if round%2 == 0 {
			distinct = 1 + r.IntN(100)
		}
		text := &column.Leaf{Kind: column.Bytes}
		whole := &column.Leaf{Kind: column.Int64}
		for range rows {
			v := r.IntN(distinct)
			text.AppendBytes(fmt.Appendf(nil, "%x", v))
			whole.Int64s = append(whole.Int64s, int64(v)<<40-1)
		}
		for _, l := range []*column.Leaf{text, whole} {
			v := newVector(l)
			first, indexes := byMap(rows, func(i int) string {
				if l == text {
					return string(l.Value(i))
				}
				return fmt.Sprint(l.Int64s[i])
			})
			got := e.distinct(v)
			switch {
			case got == nil && first == nil:
			case got == nil || !slices.Equal(got.first, first) || !slices.Equal(got.indexes, indexes):
				t.Fatalf("%d rows of %d values, kind %d: not as a map numbers them", rows, distinct, l.Kind)
			}
		}
	}
}
