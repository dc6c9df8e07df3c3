// Package redisstore keeps state in Redis, so that several processes share it: one server, a master behind Sentinels,
// or a Cluster.
//
// Every change of a key is one script, which Redis runs alone; a log's keys lie in one hash slot. What Redis has
// acknowledged can still be lost: with the process by the last second of the append-only file, and at a failover by
// what the new master had not received. Whoever stands on this store proves such a rollback by the versions that it
// has seen.
package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
)

// Bounds of what is stored, bytes. Redis serves one command at a time: a large one makes the others wait.
const (
	// MaxValue bounds a versioned value.
	MaxValue = 8 << 20
	// MaxBlob bounds a blob.
	MaxBlob = 1 << 30
	// pieceSize is the length of the pieces that a larger blob is stored in.
	pieceSize = 4 << 20
)

// pieceLife is how long the pieces of a blob whose writer died stay.
const pieceLife = time.Hour

// tries is how often a call that may be repeated is sent, and retryAfter what lies between.
const (
	tries      = 3
	retryAfter = 100 * time.Millisecond
)

const versionSize = 8

// Store is a chainstore.Store in Redis. Its owner calls Close. It answers nothing before Verify has found the server
// fit; a call verifies on its own if nobody has.
type Store struct {
	client  redis.UniversalClient
	keys    keyspace
	scripts scripts
	metrics *metrics
	log     *slog.Logger

	verifying sync.Mutex
	fitness   fitness
}

// Open prepares the client. It does not wait for the server.
func Open(cfg Config, log *slog.Logger, meter metric.Meter) (*Store, error) {
	if _, err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	s := &Store{client: redis.NewUniversalClient(opts), keys: keyspace{cfg.Prefix}, scripts: newScripts(), log: log}
	if s.metrics, err = newMetrics(meter, s); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	return s, nil
}

// Close closes the connections. No call may be under way or follow.
func (s *Store) Close() error {
	err := errors.Join(s.metrics.close(), s.client.Close())
	if err != nil {
		return fmt.Errorf("close state: %w", err)
	}
	return nil
}

// Get implements chainstore.Store. The caller owns what it gets.
func (s *Store) Get(ctx context.Context, key string) ([]byte, chainstore.Version, error) {
	if err := s.check(ctx, key); err != nil {
		return nil, 0, err
	}
	p := placeOf(key)
	raw, err := repeat(ctx, func() (string, error) {
		return s.client.HGet(ctx, s.keys.values(p, spaceValues), p.field).Result()
	})
	s.metrics.call(ctx, "get", err)
	if err != nil {
		return nil, 0, fmt.Errorf("get %s: %w", key, kind(ctx, err))
	}
	if len(raw) < versionSize {
		return nil, 0, fmt.Errorf("get %s: value of %d bytes: %w", key, len(raw), fault.ErrCorrupt)
	}
	return []byte(raw[versionSize:]), chainstore.Version(binary.BigEndian.Uint64([]byte(raw))), nil
}

// CompareAndSet implements chainstore.Store. After fault.ErrUnavailable the value may have been set.
func (s *Store) CompareAndSet(
	ctx context.Context, key string, old chainstore.Version, value []byte,
) (chainstore.Version, error) {
	if err := s.check(ctx, key); err != nil {
		return 0, err
	}
	if len(value) > MaxValue {
		return 0, fmt.Errorf("set %s: value of %d bytes, at most %d: %w", key, len(value), MaxValue, fault.ErrInvalid)
	}
	p := placeOf(key)
	raw := binary.BigEndian.AppendUint64(make([]byte, 0, versionSize+len(value)), uint64(old+1))
	raw = append(raw, value...)
	was := binary.BigEndian.AppendUint64(nil, uint64(old))
	var have uint64
	code, err := s.write(ctx, p, spaceValues, func(listed string) (int64, error) {
		keys := []string{s.keys.values(p, spaceValues), s.keys.index(p, spaceValues)}
		reply, err := s.scripts.set.Run(ctx, s.client, keys, p.field, was, raw, listed).Slice()
		if err != nil {
			return 0, err
		}
		return setReply(reply, &have)
	})
	s.metrics.call(ctx, "set", err)
	if err != nil {
		return 0, fmt.Errorf("set %s: %w", key, kind(ctx, err))
	}
	if code == lost {
		return 0, fmt.Errorf("set %s at version %d, have %d: %w", key, old, have, fault.ErrConflict)
	}
	s.metrics.wrote(ctx, p, len(raw))
	return old + 1, nil
}

// setReply reads what the script answered: a code and the version that it found.
func setReply(reply []any, have *uint64) (int64, error) {
	if len(reply) == 2 {
		code, okCode := reply[0].(int64)
		version, okVersion := reply[1].(string)
		if okCode && okVersion && len(version) == versionSize {
			*have = binary.BigEndian.Uint64([]byte(version))
			return code, nil
		}
	}
	return 0, errors.New("the answer of a script is not understood")
}

// write runs a writing script. A group that is not in the directory is put there first: a group that is there and has
// no key is no harm, a key that no list finds would be.
func (s *Store) write(ctx context.Context, p place, space string, run func(listed string) (int64, error)) (int64, error) {
	code, err := run("0")
	if err != nil || code != unlisted {
		return code, err
	}
	if err := s.client.ZAdd(ctx, s.keys.directory(space), redis.Z{Member: p.group}).Err(); err != nil {
		return 0, err
	}
	return run("1")
}

// List implements chainstore.Store.
func (s *Store) List(ctx context.Context, prefix string) ([]string, error) {
	return s.list(ctx, spaceValues, prefix)
}

// PutBlob implements chainstore.Store.
func (s *Store) PutBlob(ctx context.Context, name string, value []byte) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	if len(value) > MaxBlob {
		return fmt.Errorf("put blob %s: %d bytes, at most %d: %w", name, len(value), MaxBlob, fault.ErrInvalid)
	}
	p := placeOf(name)
	code, err := repeat(ctx, func() (int64, error) { return s.put(ctx, p, value) })
	s.metrics.call(ctx, "put_blob", err)
	if err != nil {
		return fmt.Errorf("put blob %s: %w", name, kind(ctx, err))
	}
	if code == lost {
		return fmt.Errorf("put blob %s: other bytes are there: %w", name, fault.ErrConflict)
	}
	s.metrics.wrote(ctx, p, len(value))
	return nil
}

func (s *Store) put(ctx context.Context, p place, value []byte) (int64, error) {
	form := formOf(value)
	keys := append([]string{s.keys.values(p, spaceBlobs), s.keys.index(p, spaceBlobs)}, form.pieces(s.keys, p)...)
	for {
		for i, piece := range keys[2:] {
			part := value[i*pieceSize : min((i+1)*pieceSize, len(value))]
			// Not over what is there: that may belong to a blob already, and does not end.
			if err := s.client.SetNX(ctx, piece, part, pieceLife).Err(); err != nil {
				return 0, err
			}
		}
		code, err := s.write(ctx, p, spaceBlobs, func(listed string) (int64, error) {
			return s.scripts.put.Run(ctx, s.client, keys, p.field, form.stored, listed).Int64()
		})
		if err != nil || code != pieceGone {
			return code, err
		}
	}
}

// GetBlob implements chainstore.Store. The caller owns what it gets.
func (s *Store) GetBlob(ctx context.Context, name string) ([]byte, error) {
	if err := s.check(ctx, name); err != nil {
		return nil, err
	}
	p := placeOf(name)
	b, err := repeat(ctx, func() ([]byte, error) { return s.get(ctx, p) })
	s.metrics.call(ctx, "get_blob", err)
	switch {
	case errors.Is(err, fault.ErrCorrupt):
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	case err != nil:
		return nil, fmt.Errorf("get blob %s: %w", name, kind(ctx, err))
	}
	return b, nil
}

func (s *Store) get(ctx context.Context, p place) ([]byte, error) {
	for {
		raw, err := s.client.HGet(ctx, s.keys.values(p, spaceBlobs), p.field).Result()
		if err != nil {
			return nil, err
		}
		form, err := parseForm(raw)
		if err != nil {
			return nil, err
		}
		names := form.pieces(s.keys, p)
		if len(names) == 0 {
			return []byte(form.inline()), nil
		}
		out, whole := make([]byte, 0, form.size), true
		for _, piece := range names {
			part, err := s.client.Get(ctx, piece).Bytes()
			if errors.Is(err, redis.Nil) {
				whole = false
				break
			}
			if err != nil {
				return nil, err
			}
			out = append(out, part...)
		}
		if whole && form.matches(out) {
			return out, nil
		}
		// Pieces are named by the bytes that they make together: only one that is missing may come back, if the blob was
		// deleted, or deleted and put again, meanwhile. That was so unless the blob names it in the same moment.
		if whole {
			return nil, fmt.Errorf("its pieces are not what they were: %w", fault.ErrCorrupt)
		}
		keys := append([]string{s.keys.values(p, spaceBlobs)}, names...)
		torn, err := s.scripts.torn.Run(ctx, s.client, keys, p.field, raw).Bool()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if torn {
			return nil, fmt.Errorf("a piece of it is missing: %w", fault.ErrCorrupt)
		}
	}
}

// DeleteBlob implements chainstore.Store.
func (s *Store) DeleteBlob(ctx context.Context, name string) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	p := placeOf(name)
	_, err := repeat(ctx, func() (struct{}, error) { return struct{}{}, s.remove(ctx, p) })
	s.metrics.call(ctx, "delete_blob", err)
	switch {
	case errors.Is(err, fault.ErrCorrupt):
		return fmt.Errorf("delete blob %s: %w", name, err)
	case err != nil:
		return fmt.Errorf("delete blob %s: %w", name, kind(ctx, err))
	}
	return nil
}

func (s *Store) remove(ctx context.Context, p place) error {
	keys, stored := []string{s.keys.values(p, spaceBlobs), s.keys.index(p, spaceBlobs)}, ""
	for {
		other, err := s.scripts.remove.Run(ctx, s.client, keys, p.field, stored).Text()
		if err != nil || other == "" {
			return err
		}
		form, err := parseForm(other)
		if err != nil {
			return err
		}
		keys, stored = append(keys[:2:2], form.pieces(s.keys, p)...), other
	}
}

// ListBlobs implements chainstore.Store.
func (s *Store) ListBlobs(ctx context.Context, prefix string) ([]string, error) {
	return s.list(ctx, spaceBlobs, prefix)
}

// check is what every call does first.
func (s *Store) check(ctx context.Context, key string) error {
	if err := chainstore.Check(ctx, key); err != nil {
		return err
	}
	return s.fit(ctx)
}

// repeat sends a call that may be repeated again when nobody has answered it.
func repeat[V any](ctx context.Context, call func() (V, error)) (V, error) {
	for try := 1; ; try++ {
		v, err := call()
		if err == nil || try == tries || errors.Is(err, fault.ErrCorrupt) || !unanswered(err) {
			return v, err
		}
		timer := time.NewTimer(retryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return v, context.Cause(ctx)
		}
	}
}
