package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2"

	"github.com/frazil-io/frazil/libs/pebblelog"
)

// pebbleKeys looks the keys of increments up in a Pebble store that has the entries of lookUp's runs: the hash, and the
// lowest and the highest offset. Nothing is written beside.
func pebbleKeys(ctx context.Context, r *role) (m measured, err error) {
	keys := int64(r.Events)
	db, err := pebble.Open(r.Dir, &pebble.Options{DisableWAL: true, Logger: pebblelog.New(slog.New(slog.DiscardHandler), "bench")})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := fillPebble(ctx, db, keys); err != nil {
		return m, err
	}
	size := db.Metrics().Total().TablesSize
	random := rand.New(rand.NewPCG(7, 8))
	m, err = r.measure(func(m *measured) error {
		for range r.Repeat * increment {
			h := rankedHash(random.Int64N(keys), keys)
			v, closer, err := db.Get(h[:])
			if err != nil {
				return fmt.Errorf("look up %x: %w", h, err)
			}
			if _, n := binary.Uvarint(v); n <= 0 {
				return fmt.Errorf("entry %x of %x", v, h)
			}
			if err := closer.Close(); err != nil {
				return err
			}
			m.Events++
		}
		return nil
	})
	m.Bytes = size
	return m, err
}

// fillPebble writes the entries by ascending hash and compacts them.
func fillPebble(ctx context.Context, db *pebble.DB, keys int64) error {
	batch, share := db.NewBatch(), keys/lookupRuns
	var value []byte
	for j := range keys {
		h := rankedHash(j, keys)
		off := uint64(j%lookupRuns*share + j/lookupRuns)
		value = binary.AppendUvarint(binary.AppendUvarint(value[:0], off), 0) // highest less lowest
		if err := batch.Set(h[:], value, nil); err != nil {
			return err
		}
		if batch.Len() > 4<<20 || j == keys-1 {
			if err := errors.Join(batch.Commit(pebble.NoSync), batch.Close()); err != nil {
				return err
			}
			batch = db.NewBatch()
		}
	}
	return errors.Join(batch.Close(), db.Flush(), db.Compact(ctx, []byte{0}, []byte{0xff, 0xff, 0xff}, false))
}
