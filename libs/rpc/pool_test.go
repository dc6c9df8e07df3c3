package rpc_test

import (
	"testing"

	"github.com/frazil-io/frazil/libs/rpc"
)

func TestThePoolGivesTheLengthThatIsAskedFor(t *testing.T) {
	p := rpc.NewPool()
	for _, n := range []int{0, 1, 4096, 4097, 16384, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20} {
		b := p.Get(n)
		if len(*b) != n {
			t.Errorf("asked for %d bytes, got %d", n, len(*b))
		}
		for i := range *b {
			(*b)[i] = 1
		}
		p.Put(b)
		if again := p.Get(n / 2); len(*again) != n/2 {
			t.Errorf("asked for %d bytes after that, got %d", n/2, len(*again))
		}
	}
	odd := make([]byte, 5000)
	p.Put(&odd) // not one of its own
	if got := p.Get(8192); cap(*got) != 8192 {
		t.Errorf("a buffer of %d bytes was kept", cap(*got))
	}
	none := []byte(nil)
	p.Put(&none)
}

func TestThePoolUsesMemoryAgain(t *testing.T) {
	p := rpc.NewPool()
	if allocs := testing.AllocsPerRun(1000, func() { p.Put(p.Get(100_000)) }); allocs > 1 {
		t.Errorf("%.0f allocations a turn", allocs)
	}
}
