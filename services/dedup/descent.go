package dedup

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// descents are the walks of lazy tables: each log is walked as far down as somebody has asked for, and no further. All
// who wait for a log share its walk; they hold nothing while they wait, and the walk goes on when they leave. Safe for
// concurrent use.
type descents struct {
	// step walks a piece of a log towards to, and answers the frontier then. It is called by one goroutine per log.
	step  func(ctx context.Context, d *descent, to kafkapos.Offset) (frontier kafkapos.Offset, err error)
	limit int // of those who wait
	wake  chan struct{}
	ended chan struct{} // closed when run ends

	mu      sync.Mutex
	waiting int
	by      map[state.Log]*descent
	begun   []*descent // not yet taken over by run
}

// descent is the walk of one log.
type descent struct {
	log     state.Log
	targets map[kafkapos.Offset]*target
	// frontier was there when last seen; 0: not seen yet.
	frontier kafkapos.Offset
	walk     walkState // of the goroutine that walks
}

// target is an offset that somebody waits for the frontier to reach.
type target struct {
	done chan struct{} // closed when err is set
	err  error
}

func newDescents(limit int) *descents {
	return &descents{limit: limit, wake: make(chan struct{}, 1), ended: make(chan struct{}), by: map[state.Log]*descent{}}
}

// waiters is how many wait now.
func (d *descents) waiters() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

// await waits until the walk of a log has reached to, or has failed to.
func (d *descents) await(ctx context.Context, log state.Log, to kafkapos.Offset) error {
	t, err := d.join(log, to)
	if err != nil {
		return err
	}
	defer d.leave()
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-d.ended:
		return fmt.Errorf("shutting down: %w", fault.ErrUnavailable)
	}
}

func (d *descents) join(log state.Log, to kafkapos.Offset) (*target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= d.limit {
		return nil, fmt.Errorf("%d readers wait for walks already: %w", d.waiting, fault.ErrUnavailable)
	}
	d.waiting++
	w, ok := d.by[log]
	if !ok {
		w = &descent{log: log, targets: map[kafkapos.Offset]*target{}}
		d.by[log] = w
		d.begun = append(d.begun, w)
		select {
		case d.wake <- struct{}{}:
		default: // run looks for all that have begun
		}
	}
	t, ok := w.targets[to]
	if !ok {
		t = &target{done: make(chan struct{})}
		w.targets[to] = t
	}
	return t, nil
}

func (d *descents) leave() {
	d.mu.Lock()
	d.waiting--
	d.mu.Unlock()
}

// wanted answers the lowest offset that is waited for in a log.
func (d *descents) wanted(log state.Log) (kafkapos.Offset, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.by[log]
	if !ok {
		return 0, false
	}
	return w.lowest()
}

// lowest: the lock is held.
func (w *descent) lowest() (low kafkapos.Offset, ok bool) {
	for at := range w.targets {
		if !ok || at < low {
			low, ok = at, true
		}
	}
	return low, ok
}

// remaining is the offsets between the frontiers and what is asked for.
func (d *descents) remaining() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.by {
		if low, ok := w.lowest(); ok {
			n += max(0, int64(w.frontier-low))
		}
	}
	return n
}

// run owns the walks until ctx ends.
func (d *descents) run(ctx context.Context) {
	var walks sync.WaitGroup
	defer walks.Wait()
	defer close(d.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		d.mu.Lock()
		begun := d.begun
		d.begun = nil
		d.mu.Unlock()
		for _, w := range begun {
			walks.Go(func() { d.descend(ctx, w) })
		}
	}
}

// descend walks a log until nobody waits for it.
func (d *descents) descend(ctx context.Context, w *descent) {
	defer w.walk.close()
	for {
		to, ok := d.next(w)
		if !ok {
			return
		}
		frontier, err := d.step(ctx, w, to)
		d.settle(w, to, frontier, err)
	}
}

// next answers how far down is asked for. When nothing is, the walk is over.
func (d *descents) next(w *descent) (kafkapos.Offset, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	low, ok := w.lowest()
	if !ok {
		delete(d.by, w.log)
	}
	return low, ok
}

// settle tells those whose offset was reached, and those who cannot be helped. What the log no longer holds is lost to
// those only who asked for the lowest offset: others may have asked for less.
func (d *descents) settle(w *descent, to, frontier kafkapos.Offset, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		w.frontier = frontier
	}
	for at, t := range w.targets {
		switch {
		case at >= frontier:
		case err == nil || errors.Is(err, fault.ErrRetired) && at != to:
			continue
		default:
			t.err = err
		}
		delete(w.targets, at)
		close(t.done)
	}
}
