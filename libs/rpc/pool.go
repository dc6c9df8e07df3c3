package rpc

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// Buffers of 2^leastBits to 2^mostBits bytes are kept; smaller requests get the least, larger ones their own memory.
const (
	leastBits = 12
	mostBits  = 20
)

// Pool is memory for the pieces of streams. Unlike grpc's own pools it does not clear what it hands out: whoever gets a
// buffer fills all of it before it is read. Clearing would cost a bulk stream a seventh of its processor time. Safe for
// concurrent use.
type Pool struct {
	sizes [mostBits - leastBits + 1]sync.Pool // of *[]byte, by size
}

var _ mem.BufferPool = (*Pool)(nil)

// NewPool makes an empty pool.
func NewPool() *Pool { return &Pool{} }

// Get answers a buffer of length bytes, whose contents mean nothing.
func (p *Pool) Get(length int) *[]byte {
	size := 0
	if length > 1<<leastBits {
		size = bits.Len(uint(length-1)) - leastBits
	}
	if size >= len(p.sizes) {
		b := make([]byte, length)
		return &b
	}
	b, ok := p.sizes[size].Get().(*[]byte)
	if !ok {
		made := make([]byte, 1<<(leastBits+size))
		b = &made
	}
	*b = (*b)[:length]
	return b
}

// Put takes a buffer back. One that is not of a kept size is dropped.
func (p *Pool) Put(b *[]byte) {
	size := bits.Len(uint(cap(*b))) - 1 - leastBits
	if size < 0 || size >= len(p.sizes) || cap(*b) != 1<<(leastBits+size) {
		return
	}
	p.sizes[size].Put(b)
}
