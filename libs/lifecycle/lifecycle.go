// Package lifecycle starts and stops the parts of a process.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Part is anything with a life. Run blocks until ctx ends or the part fails, and returns when everything that it
// started has ended. Ready is closed once the part serves; it is the same channel at every call.
type Part interface {
	Name() string
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// Run starts parts in order, each when the one before is ready, and blocks until ctx ends or a part fails. Then it
// stops them in reverse order, each when the one after it has ended, so that nobody loses what it stands on. The
// first failure is returned and is the cause of the context that the others see. The end of ctx is no failure; a
// part that returns before it was told to is one.
func Run(ctx context.Context, parts ...Part) error {
	r := &runner{failed: make(chan error, len(parts))}
	cause := r.start(ctx, parts)
	if cause == nil {
		select {
		case <-ctx.Done():
		case cause = <-r.failed:
		}
	}
	stop := cause
	if stop == nil {
		stop = context.Cause(ctx)
	}
	for i := len(r.running) - 1; i >= 0; i-- {
		p := r.running[i]
		p.cancel(stop)
		<-p.done
		if cause == nil && p.err != nil && !errors.Is(p.err, context.Canceled) && !errors.Is(p.err, stop) {
			cause = fmt.Errorf("stop %s: %w", p.name, p.err)
		}
	}
	return cause
}

type runner struct {
	running []*running
	failed  chan error // one message per part at most
}

type running struct {
	name   string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when err is set
	err    error
}

// start starts all parts. It answers the first failure, nil when all are ready or ctx has ended.
func (r *runner) start(ctx context.Context, parts []Part) error {
	for _, p := range parts {
		r.launch(ctx, p)
		select {
		case <-p.Ready():
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// launch runs one part under a context of its own: the end of the process must reach the parts in order.
func (r *runner) launch(ctx context.Context, p Part) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &running{name: p.Name(), cancel: cancel, done: make(chan struct{})}
	r.running = append(r.running, s)
	go func() {
		defer close(s.done)
		s.err = p.Run(own)
		switch {
		case own.Err() != nil:
		case s.err != nil:
			r.failed <- fmt.Errorf("run %s: %w", s.name, s.err)
		default:
			r.failed <- fmt.Errorf("run %s: ended without being told to", s.name)
		}
	}()
}
