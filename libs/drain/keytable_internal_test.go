package drain

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

func TestKeyTableAgainstAMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	table := keyTable{k0: r.Uint64(), k1: r.Uint64()}
	for range 3 {
		n := int64(1 + r.IntN(3000))
		table.reset(n)
		want := map[uint64]int64{}
		key := func(k uint64) [2]uint64 { return table.hash(binary.BigEndian.AppendUint64(nil, k)) }
		for range n { // the highest of the sequence numbers of a key stays, in whatever order they come
			k, seq := r.Uint64N(2000), 1+r.Int64N(100)
			table.put(key(k), seq)
			want[k] = max(want[k], seq)
		}
		for k := range uint64(2500) {
			if got := table.get(key(k)); got != want[k] {
				t.Fatalf("key %d: %d, want %d", k, got, want[k])
			}
		}
	}
}

func TestCapacityFitsTheBytes(t *testing.T) {
	for bytes := int64(1000); bytes < 1<<32; bytes = bytes*3/2 + 1 {
		n := capacityOf(bytes)
		if used := slotsFor(n) * slotBytes; n < 12 || used > bytes || used*4 < bytes {
			t.Fatalf("%d bytes: %d keys in %d bytes", bytes, n, used)
		}
	}
}
