// Package shared runs a piece of work once for all callers that want its result at the same time.
package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
)

// errClosed is what callers get from a group that has been closed.
var errClosed = fmt.Errorf("shutting down: %w", fault.ErrUnavailable)

// Limits bound a Group.
type Limits struct {
	// Running is how many builds run at once; others queue. At least 1. Work that calls another service must
	// not run under a small limit that the other side's work also needs.
	Running int
	// Waiting is how many callers may wait, over all keys. 0 = unlimited.
	Waiting int
	// Timeout ends a build, counted from when it gets its slot. 0 = none.
	Timeout time.Duration
}

// Group runs at most one build per key at a time. Results are not kept: a call that comes after a build has ended
// starts another one. Safe for concurrent use.
type Group[K comparable, V any] struct {
	limits Limits
	slots  chan struct{}
	stop   chan struct{} // closed by Close
	runs   sync.WaitGroup

	mu      sync.Mutex
	calls   map[K]*call[V]
	waiting int
	closed  bool
}

type call[V any] struct {
	done chan struct{} // closed when val and err are set
	val  V
	err  error
}

// New makes a group. Its owner calls Close.
func New[K comparable, V any](limits Limits) *Group[K, V] {
	limits.Running = max(limits.Running, 1)
	return &Group[K, V]{
		limits: limits,
		slots:  make(chan struct{}, limits.Running),
		stop:   make(chan struct{}),
		calls:  make(map[K]*call[V]),
	}
}

// Do answers the result of build for key, joining a build that is under way. The build outlives its callers: one
// that hangs up must not fail the others, and finds the work done when it comes back. Its context carries the
// values of the first caller's and ends with the group or its timeout, never with a caller.
//
// Errors: the build's own, the same for all who joined; the end of ctx; fault.ErrUnavailable when too many wait or
// the group is closed.
func (g *Group[K, V]) Do(ctx context.Context, key K, build func(context.Context) (V, error)) (V, error) {
	var zero V
	c, err := g.join(ctx, key, build)
	if err != nil {
		return zero, err
	}
	defer g.leave()
	select {
	case <-c.done:
		return c.val, c.err
	case <-ctx.Done():
		return zero, fmt.Errorf("await shared work: %w", context.Cause(ctx))
	}
}

// Start makes sure that a build of key is under way and does not wait for it. It does nothing when the group is
// closed.
func (g *Group[K, V]) Start(ctx context.Context, key K, build func(context.Context) (V, error)) {
	if _, err := g.join(ctx, key, build); err == nil {
		g.leave()
	}
}

// Running is how many builds have a slot now.
func (g *Group[K, V]) Running() int { return len(g.slots) }

// Waiting is how many callers wait now, over all keys.
func (g *Group[K, V]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// Close ends the context of every build, waits for them and refuses new ones.
func (g *Group[K, V]) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.stop)
	}
	g.mu.Unlock()
	g.runs.Wait()
}

func (g *Group[K, V]) join(ctx context.Context, key K, build func(context.Context) (V, error)) (*call[V], error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errClosed
	}
	if g.limits.Waiting > 0 && g.waiting >= g.limits.Waiting {
		return nil, fmt.Errorf("%d callers wait already: %w", g.waiting, fault.ErrUnavailable)
	}
	g.waiting++
	c, ok := g.calls[key]
	if !ok {
		c = &call[V]{done: make(chan struct{})}
		g.calls[key] = c
		g.runs.Add(1)
		go g.run(context.WithoutCancel(ctx), key, c, build)
	}
	return c, nil
}

func (g *Group[K, V]) leave() {
	g.mu.Lock()
	g.waiting--
	g.mu.Unlock()
}

func (g *Group[K, V]) run(ctx context.Context, key K, c *call[V], build func(context.Context) (V, error)) {
	defer g.runs.Done()
	// Whatever happens below, also a panic on its way up, nobody may wait for ever.
	c.err = errors.New("shared work did not return")
	defer func() {
		g.mu.Lock()
		delete(g.calls, key)
		g.mu.Unlock()
		close(c.done)
	}()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-g.stop:
		c.err = errClosed
		return
	}
	ctx, cancel := g.bound(ctx)
	defer cancel()
	c.val, c.err = build(ctx)
}

// bound makes the build's context, which ends with the timeout or the group.
func (g *Group[K, V]) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-g.stop:
			cancel(errClosed)
		case <-stopped:
		}
	}()
	done := func() { close(stopped); cancel(nil) }
	if g.limits.Timeout <= 0 {
		return ctx, done
	}
	late := fmt.Errorf("shared work took longer than %v: %w", g.limits.Timeout, fault.ErrUnavailable)
	ctx, stopTimer := context.WithTimeoutCause(ctx, g.limits.Timeout, late)
	return ctx, func() { stopTimer(); done() }
}
