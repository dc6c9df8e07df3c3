// Package diskstore keeps state in an embedded Pebble store. One process holds a directory at a time: Pebble
// locks it. Every change is synced before it is acknowledged.
package diskstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/pebblelog"
)

// Spaces of keys, their first byte. A versioned value is stored behind its version, 8 bytes big endian.
const (
	spaceValues = 'v'
	spaceBlobs  = 'b'
)

const versionSize = 8

// stripes is the number of locks that changes of different keys spread over: changes of one key must not
// interleave, changes of many share one sync of the log.
const stripes = 64

// Store is a chainstore.Store on disk. Its owner calls Close.
type Store struct {
	db    *pebble.DB
	seed  maphash.Seed
	locks [stripes]sync.Mutex
}

// Open opens or makes the store in dir. fault.ErrUnavailable: another process holds it, or the disk does not
// answer or is full; fault.ErrCorrupt: what is there does not verify.
func Open(dir string, log *slog.Logger) (*Store, error) {
	return open(dir, &pebble.Options{Logger: pebblelog.New(log, "state store")}, retryPause)
}

func open(dir string, opts *pebble.Options, pause time.Duration) (*Store, error) {
	t := &troubles{log: opts.Logger, pause: pause, many: make(chan error, 1)}
	opts.FormatMajorVersion = pebble.FormatWALSyncChunks
	opts.EventListener = &pebble.EventListener{BackgroundError: t.add, DataCorruption: t.damaged}
	type opened struct {
		db  *pebble.DB
		err error
	}
	done := make(chan opened, 1)
	go func() {
		db, err := pebble.Open(dir, opts)
		done <- opened{db, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, fmt.Errorf("open state: %w", kind(o.err))
		}
		return &Store{db: o.db, seed: maphash.MakeSeed()}, nil
	case err := <-t.many:
		// Pebble cannot be told to stop: it holds the directory until the disk lets it finish.
		go func() {
			if o := <-done; o.err == nil {
				_ = o.db.Close() // nothing was written to it
			}
		}()
		return nil, fmt.Errorf("open state: %w", kind(err))
	}
}

const (
	retryPause   = 100 * time.Millisecond
	manyTroubles = 10
)

// troubles paces what Pebble does in the background. Pebble tries a flush that failed again at once and for ever,
// also inside its Open: on a full disk that is all that the process would do, without a word to whoever waits.
type troubles struct {
	log   pebble.Logger
	pause time.Duration
	many  chan error // the manyTroubles-th failure; room for one
	count atomic.Int64
}

// add takes in a failure. Pebble goes on when it returns.
func (t *troubles) add(err error) {
	n := t.count.Add(1)
	if n%manyTroubles == 1 {
		t.log.Errorf("background work fails, and is tried again: %v", err)
	}
	if n == manyTroubles {
		t.many <- err
	}
	time.Sleep(t.pause)
}

// damaged takes in what did not verify. Unless somebody listens Pebble ends the process, at every start anew; whoever
// reads the damaged place gets an error, and all other places are as good as before.
func (t *troubles) damaged(info pebble.DataCorruptionInfo) {
	t.log.Errorf("a file is damaged: what is in it is refused: %s", info)
}

// Close releases the directory. No call may be under way or follow.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close state: %w", kind(err))
	}
	return nil
}

// Get implements chainstore.Store. The caller owns what it gets.
func (s *Store) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if err := chainstore.Check(ctx, key); err != nil {
		return nil, 0, err
	}
	return s.get(key)
}

func (s *Store) get(key string) ([]byte, chainstore.Version, error) {
	raw, err := s.read(spaceValues, key)
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", key, err)
	}
	if len(raw) < versionSize {
		return nil, 0, fmt.Errorf("get %s: value of %d bytes: %w", key, len(raw), fault.ErrCorrupt)
	}
	return raw[versionSize:], chainstore.Version(binary.BigEndian.Uint64(raw)), nil
}

// CompareAndSet implements chainstore.Store.
func (s *Store) CompareAndSet(
	ctx context.Context, key string, old chainstore.Version, value []byte,
) (chainstore.Version, error) {
	if err := chainstore.Check(ctx, key); err != nil {
		return 0, err
	}
	defer s.lock(spaceValues, key)()
	_, have, err := s.get(key)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return 0, err
	}
	if have != old {
		return 0, fmt.Errorf("set %s at version %d, have %d: %w", key, old, have, fault.ErrConflict)
	}
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, versionSize+len(value)), uint64(old+1))
	if err := s.db.Set(dbKey(spaceValues, key), append(raw, value...), pebble.Sync); err != nil {
		return 0, fmt.Errorf("set %s: %w", key, kind(err))
	}
	return old + 1, nil
}

// List implements chainstore.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	return s.list(ctx, spaceValues, prefix)
}

// PutBlob implements chainstore.Store.
func (s *Store) PutBlob(ctx context.Context, name string, value []byte) error {
	if err := chainstore.Check(ctx, name); err != nil {
		return err
	}
	defer s.lock(spaceBlobs, name)()
	have, err := s.read(spaceBlobs, name)
	switch {
	case err == nil && bytes.Equal(have, value):
		return nil
	case err == nil:
		return fmt.Errorf("put blob %s: other bytes are there: %w", name, fault.ErrConflict)
	case !errors.Is(err, fault.ErrNotFound):
		return fmt.Errorf("put blob %s: %w", name, err)
	}
	if err := s.db.Set(dbKey(spaceBlobs, name), value, pebble.Sync); err != nil {
		return fmt.Errorf("put blob %s: %w", name, kind(err))
	}
	return nil
}

// GetBlob implements chainstore.Store.
func (s *Store) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := chainstore.Check(ctx, name); err != nil {
		return nil, err
	}
	b, err := s.read(spaceBlobs, name)
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	return b, nil
}

// DeleteBlob implements chainstore.Store.
func (s *Store) DeleteBlob(ctx context.Context, name string) error {
	if err := chainstore.Check(ctx, name); err != nil {
		return err
	}
	defer s.lock(spaceBlobs, name)()
	if err := s.db.Delete(dbKey(spaceBlobs, name), pebble.Sync); err != nil {
		return fmt.Errorf("delete blob %s: %w", name, kind(err))
	}
	return nil
}

// ListBlobs implements chainstore.Store.
func (s *Store) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	return s.list(ctx, spaceBlobs, prefix)
}

func (s *Store) list(ctx context.Context, space byte, prefix string) (names []string, err error) {
	lower := dbKey(space, prefix)
	// Keys are ASCII: 0xff is above every continuation of the prefix.
	it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: lower, UpperBound: append(bytes.Clone(lower), 0xff),
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, kind(err))
	}
	defer func() {
		if e := it.Close(); e != nil && err == nil {
			err = fmt.Errorf("list %s: %w", prefix, kind(e))
		}
	}()
	names = make([]string, 0)
	for ok := it.First(); ok; ok = it.Next() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		names = append(names, string(it.Key()[1:]))
	}
	return names, nil
}

// read answers a copy: Pebble's buffer is only good until it is closed.
func (s *Store) read(space byte, key string) ([]byte, error) {
	raw, closer, err := s.db.Get(dbKey(space, key))
	if err != nil {
		return nil, kind(err)
	}
	out := bytes.Clone(raw)
	if out == nil {
		out = []byte{}
	}
	if err := closer.Close(); err != nil {
		return nil, kind(err)
	}
	return out, nil
}

func (s *Store) lock(space byte, key string) (unlock func()) {
	l := &s.locks[(maphash.String(s.seed, key)+uint64(space))%stripes]
	l.Lock()
	return l.Unlock
}

func dbKey(space byte, key string) []byte {
	return append(append(make([]byte, 0, len(key)+2), space), key...)
}

// kind gives an error of Pebble its kind. What is neither missing nor corrupt may be gone at the next try: a
// full disk, a held lock.
func kind(err error) error {
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return fault.ErrNotFound
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", err, fault.ErrCorrupt)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", err, fault.ErrUnavailable)
}
