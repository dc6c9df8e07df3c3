package rpc

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/fault"
)

// Slots bound how much of one kind of work goes on, and how many requests wait for their turn.
type Slots struct {
	free    chan struct{}
	waiting atomic.Int64
	limit   int64
}

// NewSlots lets n requests work and waiting others wait.
func NewSlots(n, waiting int) *Slots {
	return &Slots{free: make(chan struct{}, n), limit: int64(waiting)}
}

// Used is how many slots are taken now.
func (s *Slots) Used() int64 { return int64(len(s.free)) }

// Waiting is how many requests wait for their turn now.
func (s *Slots) Waiting() int64 { return s.waiting.Load() }

// Acquire waits for a slot, which release gives back. fault.ErrUnavailable: too many wait already; else the end of
// ctx.
func (s *Slots) Acquire(ctx context.Context) (release func(), err error) {
	if s.waiting.Add(1) > s.limit {
		s.waiting.Add(-1)
		return nil, fmt.Errorf("%d requests wait already: %w", s.limit, fault.ErrUnavailable)
	}
	defer s.waiting.Add(-1)
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("await a slot: %w", context.Cause(ctx))
	}
}
