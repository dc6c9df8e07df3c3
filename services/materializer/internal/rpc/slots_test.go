package rpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/materializer/internal/rpc"
)

func TestSlotsBoundWorkAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := rpc.NewSlots(1, 2)
		release, err := s.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 3)
		turn := make(chan func(), 1)
		go func() {
			r, err := s.Acquire(t.Context())
			got <- err
			turn <- r
		}()
		synctest.Wait()
		go func() {
			_, err := s.Acquire(ctx)
			got <- err
		}()
		synctest.Wait()
		if _, err := s.Acquire(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("one waiter too many: %v", err)
		}
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter that left: %v", err)
		}
		release()
		if err := <-got; err != nil {
			t.Errorf("the waiter whose turn it is: %v", err)
		}
		(<-turn)()
	})
}
