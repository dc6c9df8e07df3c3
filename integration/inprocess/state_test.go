package inprocess_test

import (
	"errors"
	"testing"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/chainstoretest"
	"github.com/frazil-io/frazil/libs/fault"
)

// A gate keeps the contract until a trap is set. The state ends with the test, which is its declared exception.
func TestConformance(t *testing.T) {
	chainstoretest.Run(t, chainstoretest.Suite{
		Open: func(*testing.T) chainstore.Store { return inprocess.NewGate(inprocess.NewState()) },
	})
}

func TestTraps(t *testing.T) {
	for trap, want := range map[inprocess.Trap]struct{ done, dead bool }{
		inprocess.DieBefore: {false, true}, inprocess.DieAfter: {true, true},
		inprocess.Refuse: {false, false}, inprocess.LoseReply: {true, false},
	} {
		t.Run(string(trap), func(t *testing.T) {
			state := inprocess.NewState()
			g, ctx := inprocess.NewGate(state), t.Context()
			sprung := g.Set(trap, 2)
			if err := g.PutBlob(ctx, "a", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := g.CompareAndSet(ctx, "k", 0, []byte("v")); !errors.Is(err, fault.ErrUnavailable) {
				t.Fatalf("the second write answers %v", err)
			}
			<-sprung
			if _, err := g.GetBlob(ctx, "a"); (err != nil) != want.dead {
				t.Fatalf("after it: %v", err)
			}
			if _, v, _ := inprocess.NewGate(state).Get(ctx, "k"); (v == 1) != want.done {
				t.Fatalf("version %d", v)
			}
		})
	}
}

func TestAPausedWriteIsLate(t *testing.T) {
	state := inprocess.NewState()
	late, other, ctx := inprocess.NewGate(state), inprocess.NewGate(state), t.Context()
	sprung := late.Set(inprocess.Pause, 1)
	done := make(chan error)
	go func() {
		_, err := late.CompareAndSet(ctx, "k", 0, []byte("late"))
		done <- err
	}()
	<-sprung
	image := state.Image()
	if _, err := other.CompareAndSet(ctx, "k", 0, []byte("first")); err != nil {
		t.Fatal(err)
	}
	late.Resume()
	if err := <-done; !errors.Is(err, fault.ErrConflict) {
		t.Fatalf("the late write answers %v", err)
	}
	state.Load(image)
	if _, _, err := other.Get(ctx, "k"); !errors.Is(err, fault.ErrNotFound) {
		t.Fatalf("after going back: %v", err)
	}
}
