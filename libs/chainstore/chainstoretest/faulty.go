package chainstoretest

import (
	"context"
	"fmt"
	"sync"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// Faulty is a store that misbehaves as it is told to. Until then it behaves as the store inside. Its declared
// misbehaviours are the ways in which a real store can break its promise: to stop at any write, to answer an
// older value, to lack one, and to lose a compare-and-set that it acknowledged.
type Faulty struct {
	inner chainstore.Store

	mu     sync.Mutex
	writes int
	limit  int // writes that still go through before the store stops; negative: it does not stop
	older  map[string]old
	gone   map[string]bool
	lose   map[string]bool
}

type old struct {
	value   []byte
	version chainstore.Version
}

// NewFaulty wraps a store.
func NewFaulty(inner chainstore.Store) *Faulty {
	return &Faulty{inner: inner, limit: -1, older: map[string]old{}, gone: map[string]bool{}, lose: map[string]bool{}}
}

// StopAfter lets n more writes through; every call after the last of them fails with fault.ErrUnavailable, as
// if the process had been killed there. Negative: no end.
func (f *Faulty) StopAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limit = n
}

// Stopped reports whether the last write that StopAfter lets through has gone through.
func (f *Faulty) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limit == 0
}

// Writes is the number of writes that went through.
func (f *Faulty) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Forget makes key, a versioned value or a blob, a thing that the store lacks.
func (f *Faulty) Forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone[key] = true
}

// Freeze makes reads of key answer what it is now, whatever is written later.
func (f *Faulty) Freeze(ctx context.Context, key string) error {
	value, version, err := f.inner.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("freeze %s: %w", key, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.older[key] = old{value, version}
	return nil
}

// LoseNext makes the next compare-and-set of key be acknowledged and not kept.
func (f *Faulty) LoseNext(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose[key] = true
}

func (f *Faulty) read(key string) (stale *old, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == 0 {
		return nil, errStopped()
	}
	if f.gone[key] {
		return nil, fmt.Errorf("get %s: %w", key, fault.ErrNotFound)
	}
	if o, ok := f.older[key]; ok {
		return &o, nil
	}
	return nil, nil
}

func (f *Faulty) write() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limit == 0 {
		return errStopped()
	}
	if f.limit > 0 {
		f.limit--
	}
	f.writes++
	return nil
}

func errStopped() error { return fmt.Errorf("the store has stopped: %w", fault.ErrUnavailable) }

// Get implements chainstore.Store.
func (f *Faulty) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	stale, err := f.read(key)
	if err != nil {
		return nil, 0, err
	}
	if stale != nil {
		return stale.value, stale.version, nil
	}
	return f.inner.Get(ctx, key)
}

// CompareAndSet implements chainstore.Store.
func (f *Faulty) CompareAndSet(
	ctx context.Context, key string, old chainstore.Version, value []byte,
) (chainstore.Version, error) {
	if err := f.write(); err != nil {
		return 0, err
	}
	f.mu.Lock()
	lost := f.lose[key]
	delete(f.lose, key)
	f.mu.Unlock()
	if lost {
		return old + 1, nil
	}
	return f.inner.CompareAndSet(ctx, key, old, value)
}

// List implements chainstore.Store.
func (f *Faulty) List(ctx context.Context, prefix string) ([]string, error) {
	if _, err := f.read(""); err != nil {
		return nil, err
	}
	return f.inner.List(ctx, prefix)
}

// PutBlob implements chainstore.Store.
func (f *Faulty) PutBlob(ctx context.Context, name string, value []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.inner.PutBlob(ctx, name, value)
}

// GetBlob implements chainstore.Store.
func (f *Faulty) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if _, err := f.read(name); err != nil {
		return nil, err
	}
	return f.inner.GetBlob(ctx, name)
}

// DeleteBlob implements chainstore.Store.
func (f *Faulty) DeleteBlob(ctx context.Context, name string) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.inner.DeleteBlob(ctx, name)
}

// ListBlobs implements chainstore.Store.
func (f *Faulty) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	if _, err := f.read(""); err != nil {
		return nil, err
	}
	return f.inner.ListBlobs(ctx, prefix)
}
