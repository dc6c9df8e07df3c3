package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/frazil-io/frazil/libs/lifecycle"
)

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

type part struct {
	name    string
	j       *journal
	ready   chan struct{}
	never   bool                            // never gets ready
	fail    chan error                      // a message makes it return it
	closing func(ctx context.Context) error // its return value after ctx ended
}

func newPart(j *journal, name string) *part {
	return &part{name: name, j: j, ready: make(chan struct{}), fail: make(chan error, 1)}
}

func (p *part) Name() string           { return p.name }
func (p *part) Ready() <-chan struct{} { return p.ready }
func (p *part) Run(ctx context.Context) error {
	p.j.add("start " + p.name)
	if !p.never {
		close(p.ready)
	}
	defer p.j.add("end " + p.name)
	select {
	case err := <-p.fail:
		return err
	case <-ctx.Done():
		p.j.add("told " + p.name)
		if p.closing != nil {
			return p.closing(ctx)
		}
		return ctx.Err()
	}
}

func TestStartsInOrderAndStopsInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		a, b, c := newPart(j, "a"), newPart(j, "b"), newPart(j, "c")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Run(ctx, a, b, c) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a normal end: %v", err)
		}
		want := []string{"start a", "start b", "start c", "told c", "end c", "told b", "end b", "told a", "end a"}
		if !slices.Equal(j.lines, want) {
			t.Errorf("order %v", j.lines)
		}
	})
}

func TestFirstFailureIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		a, b, c := newPart(j, "a"), newPart(j, "b"), newPart(j, "c")
		boom, second := errors.New("boom"), errors.New("second")
		var seen error
		a.closing = func(ctx context.Context) error { seen = context.Cause(ctx); return second }
		done := make(chan error)
		go func() { done <- lifecycle.Run(t.Context(), a, b, c) }()
		synctest.Wait()
		b.fail <- boom
		if err := <-done; !errors.Is(err, boom) || errors.Is(err, second) {
			t.Errorf("got %v, want the first failure", err)
		}
		if !errors.Is(seen, boom) {
			t.Errorf("the others saw %v", seen)
		}
	})
}

func TestAPartThatIsNotReadyHoldsTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		a, b := newPart(j, "a"), newPart(j, "b")
		a.never = true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Run(ctx, a, b) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v", err)
		}
		if slices.Contains(j.lines, "start b") {
			t.Errorf("b was started before a was ready: %v", j.lines)
		}
	})
}

func TestAnEarlyEndIsAFailure(t *testing.T) {
	j := &journal{}
	a := newPart(j, "a")
	a.fail <- nil
	if err := lifecycle.Run(t.Context(), a); err == nil {
		t.Error("a part that ended by itself went unnoticed")
	}
}

func TestAFailureWhileStoppingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		a := newPart(j, "a")
		lost := errors.New("close store")
		a.closing = func(context.Context) error { return lost }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- lifecycle.Run(ctx, a) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	})
}
