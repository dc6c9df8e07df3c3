// Package memstore keeps state in memory: the fake of chainstore for tests. It ends with the process.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// Store is a chainstore.Store in memory.
type Store struct {
	mu     sync.RWMutex
	values map[string]value
	blobs  map[string][]byte
}

type value struct {
	version chainstore.Version
	bytes   []byte
}

// New makes an empty store.
func New() *Store {
	return &Store{values: map[string]value{}, blobs: map[string][]byte{}}
}

// Clone answers a store with what is in this one now.
func (s *Store) Clone() *Store {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Store{values: maps.Clone(s.values), blobs: maps.Clone(s.blobs)}
}

// Get implements chainstore.Store. The caller owns what it gets.
func (s *Store) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if err := chainstore.Check(ctx, key); err != nil {
		return nil, 0, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.values[key]
	if !ok {
		return nil, 0, fmt.Errorf("get %s: %w", key, fault.ErrNotFound)
	}
	return bytes.Clone(v.bytes), v.version, nil
}

// CompareAndSet implements chainstore.Store.
func (s *Store) CompareAndSet(
	ctx context.Context, key string, old chainstore.Version, val []byte,
) (chainstore.Version, error) {
	if err := chainstore.Check(ctx, key); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.values[key].version; have != old {
		return 0, fmt.Errorf("set %s at version %d, have %d: %w", key, old, have, fault.ErrConflict)
	}
	s.values[key] = value{version: old + 1, bytes: bytes.Clone(val)}
	return old + 1, nil
}

// List implements chainstore.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return withPrefix(s.values, prefix), nil
}

// PutBlob implements chainstore.Store.
func (s *Store) PutBlob(ctx context.Context, name string, val []byte) error {
	if err := chainstore.Check(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	have, ok := s.blobs[name]
	if ok && !bytes.Equal(have, val) {
		return fmt.Errorf("put blob %s: other bytes are there: %w", name, fault.ErrConflict)
	}
	if !ok {
		s.blobs[name] = bytes.Clone(val)
	}
	return nil
}

// GetBlob implements chainstore.Store.
func (s *Store) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := chainstore.Check(ctx, name); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, ok := s.blobs[name]
	if !ok {
		return nil, fmt.Errorf("get blob %s: %w", name, fault.ErrNotFound)
	}
	return b, nil
}

// DeleteBlob implements chainstore.Store.
func (s *Store) DeleteBlob(ctx context.Context, name string) error {
	if err := chainstore.Check(ctx, name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.blobs, name)
	return nil
}

// ListBlobs implements chainstore.Store.
func (s *Store) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return withPrefix(s.blobs, prefix), nil
}

func withPrefix[V any](m map[string]V, prefix string) []string {
	out := make([]string, 0)
	for k := range maps.Keys(m) {
		if strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}
