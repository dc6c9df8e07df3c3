package shared_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/shared"
)

func TestManyCallersOneBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := shared.New[string, int](shared.Limits{Running: 2})
		defer g.Close()
		var builds atomic.Int32
		release := make(chan struct{})
		build := func(context.Context) (int, error) {
			builds.Add(1)
			<-release
			return 42, nil
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if v, err := g.Do(t.Context(), "a", build); v != 42 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if n := builds.Load(); n != 1 {
			t.Errorf("%d builds", n)
		}
		// Results are not kept.
		if _, err := g.Do(t.Context(), "a", build); err != nil || builds.Load() != 2 {
			t.Errorf("a later call: %v, %d builds", err, builds.Load())
		}
	})
}

func TestWorkOutlivesTheCallerAndIsJoinedByTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := shared.New[string, int](shared.Limits{Running: 1})
		defer g.Close()
		release := make(chan struct{})
		var cancelled atomic.Bool
		build := func(ctx context.Context) (int, error) {
			<-release
			cancelled.Store(ctx.Err() != nil)
			return 1, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := g.Do(ctx, "a", build); !errors.Is(err, context.Canceled) {
			t.Fatalf("the caller that left: %v", err)
		}
		close(release)
		v, err := g.Do(t.Context(), "a", func(context.Context) (int, error) { return 2, nil })
		if v != 1 || err != nil {
			t.Errorf("the retry: %d, %v; want the first build's 1", v, err)
		}
		if cancelled.Load() {
			t.Error("the build was cancelled with its caller")
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := shared.New[int, int](shared.Limits{Running: 2, Waiting: 5, Timeout: time.Minute})
		var running, peak atomic.Int32
		build := func(ctx context.Context) (int, error) {
			if n := running.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			defer running.Add(-1)
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		var wg sync.WaitGroup
		for k := range 5 {
			wg.Go(func() {
				if _, err := g.Do(t.Context(), k, build); !errors.Is(err, fault.ErrUnavailable) {
					t.Errorf("build %d past its timeout: %v", k, err)
				}
			})
		}
		synctest.Wait()
		if _, err := g.Do(t.Context(), 9, build); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("the sixth caller: %v", err)
		}
		wg.Wait()
		if peak.Load() != 2 {
			t.Errorf("%d builds at once", peak.Load())
		}
		g.Close()
	})
}

func TestCloseEndsBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := shared.New[int, int](shared.Limits{Running: 1})
		var ended atomic.Int32
		block := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			ended.Add(1)
			return 0, context.Cause(ctx)
		}
		g.Start(t.Context(), 1, block)
		g.Start(t.Context(), 2, block) // queued
		synctest.Wait()
		g.Close()
		if ended.Load() != 1 {
			t.Errorf("%d builds ran", ended.Load())
		}
		if _, err := g.Do(t.Context(), 3, block); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
	})
}
