package inprocess

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/chainstore/memstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// State is what processes of dedup share, as they share a Redis: in memory, and robbed on demand. Safe for concurrent
// use.
type State struct {
	now       atomic.Pointer[memstore.Store]
	collected atomic.Int64
}

// NewState makes an empty one.
func NewState() *State {
	s := &State{}
	s.now.Store(memstore.New())
	return s
}

// Image is everything that a state holds at one time.
type Image struct{ store *memstore.Store }

// Image keeps what there is now.
func (s *State) Image() Image { return Image{s.now.Load().Clone()} }

// Load makes everything what it was, as a failover to a replica that lags behind does.
func (s *State) Load(i Image) { s.now.Store(i.store.Clone()) }

// Collected is how many blobs were removed so far.
func (s *State) Collected() int64 { return s.collected.Load() }

// Trap is what happens to a process at a write of the state.
type Trap string

// Traps.
const (
	// DieBefore: the process has ended before the write arrives.
	DieBefore Trap = "die-before"
	// DieAfter: it has ended when the write is done, before it knows.
	DieAfter Trap = "die-after"
	// Pause: it stops before the write and goes on with it when it is resumed.
	Pause Trap = "pause"
	// Stall is Pause, before a compare-and-set: other writes are not counted.
	Stall Trap = "stall"
	// Refuse: the write fails and the process goes on.
	Refuse Trap = "refuse"
	// LoseReply: the write is done, the process goes on and takes it for failed.
	LoseReply Trap = "lose-reply"
)

// Gate is the way of one process to the state: a chainstore.Store that ends or stops it at a write.
type Gate struct {
	state *State

	mu     sync.Mutex
	left   int // writes up to the one of the trap; 0: none is set
	trap   Trap
	sprung chan struct{} // closed by the trap
	dead   bool
	paused chan struct{} // closed when the process may go on; nil: it is not paused
}

// NewGate makes the way of a process that begins.
func NewGate(s *State) *Gate { return &Gate{state: s} }

// Set lets the trap spring at the n-th write from now, 1 being the next. The answer is closed then.
func (g *Gate) Set(t Trap, n int) (sprung <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trap, g.left, g.sprung = t, max(1, n), make(chan struct{})
	return g.sprung
}

// Disarm removes a trap that has not sprung and answers whether there was one.
func (g *Gate) Disarm() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	armed := g.left > 0
	g.left = 0
	return armed
}

// Paused reports whether the process is stopped at a write.
func (g *Gate) Paused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.paused != nil
}

// Resume lets a process that is paused go on. One that is not stays as it is.
func (g *Gate) Resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.paused != nil {
		close(g.paused)
		g.paused = nil
	}
}

// Kill ends the process as far as the state can tell: nothing that it does arrives any more.
func (g *Gate) Kill() {
	g.mu.Lock()
	g.dead, g.left = true, 0
	g.mu.Unlock()
	g.Resume()
}

// call is a kind of call of the store.
type call int

const (
	reading call = iota
	writing
	setting
)

// counts reports whether a trap counts a call.
func (t Trap) counts(c call) bool { return c == setting || c == writing && t != Stall }

// enter waits while the process is paused, and says what becomes of a call.
func (g *Gate) enter(c call) (t Trap, err error) {
	for {
		g.mu.Lock()
		if g.dead {
			g.mu.Unlock()
			return "", errDead()
		}
		wait := g.paused
		if wait == nil && g.left > 0 && g.trap.counts(c) {
			if g.left--; g.left == 0 {
				t = g.trap
				close(g.sprung)
				g.dead = t == DieBefore || t == DieAfter
				if t == Pause || t == Stall {
					g.paused = make(chan struct{})
					wait = g.paused
				}
			}
		}
		g.mu.Unlock()
		if wait == nil {
			return t, nil
		}
		<-wait
	}
}

func errDead() error { return fmt.Errorf("the process has ended: %w", fault.ErrUnavailable) }

// write does a write as the trap wants it.
func (g *Gate) write(c call, do func(*memstore.Store) error) error {
	t, err := g.enter(c)
	if err != nil {
		return err
	}
	switch t {
	case DieBefore, Refuse:
		return fmt.Errorf("the state is away: %w", fault.ErrUnavailable)
	case DieAfter, LoseReply:
		_ = do(g.state.now.Load()) // nobody hears of it
		return fmt.Errorf("no answer from the state: %w", fault.ErrUnavailable)
	}
	return do(g.state.now.Load())
}

// Get implements chainstore.Store.
func (g *Gate) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if _, err := g.enter(reading); err != nil {
		return nil, 0, err
	}
	return g.state.now.Load().Get(ctx, key)
}

// CompareAndSet implements chainstore.Store.
func (g *Gate) CompareAndSet(ctx context.Context, key string, old chainstore.Version, value []byte) (v chainstore.Version, err error) {
	err = g.write(setting, func(s *memstore.Store) (err error) {
		v, err = s.CompareAndSet(ctx, key, old, value)
		return err
	})
	if err != nil {
		v = 0
	}
	return v, err
}

// List implements chainstore.Store.
func (g *Gate) List(ctx context.Context, prefix string) ([]string, error) {
	if _, err := g.enter(reading); err != nil {
		return nil, err
	}
	return g.state.now.Load().List(ctx, prefix)
}

// PutBlob implements chainstore.Store.
func (g *Gate) PutBlob(ctx context.Context, name string, value []byte) error {
	return g.write(writing, func(s *memstore.Store) error { return s.PutBlob(ctx, name, value) })
}

// GetBlob implements chainstore.Store.
func (g *Gate) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if _, err := g.enter(reading); err != nil {
		return nil, err
	}
	return g.state.now.Load().GetBlob(ctx, name)
}

// DeleteBlob implements chainstore.Store.
func (g *Gate) DeleteBlob(ctx context.Context, name string) error {
	g.state.collected.Add(1)
	return g.write(writing, func(s *memstore.Store) error { return s.DeleteBlob(ctx, name) })
}

// ListBlobs implements chainstore.Store.
func (g *Gate) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	if _, err := g.enter(reading); err != nil {
		return nil, err
	}
	return g.state.now.Load().ListBlobs(ctx, prefix)
}
