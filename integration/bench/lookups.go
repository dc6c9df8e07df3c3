package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
)

const (
	lookupRuns = 8
	// increment is the keys of one increment.
	increment = 10_000
	// filterBytes bounds the filters in memory: what the product takes by default.
	filterBytes = 64 << 20
)

// lookUp plans increments of known keys against runs that have r.Events keys together.
func lookUp(_ context.Context, r *role) (m measured, err error) {
	keys := int64(r.Events)
	var runs []*keyrun.Run
	var size int64
	filters := keyrun.NewFilters(filterBytes)
	for i := range int64(lookupRuns) {
		f, err := os.Create(filepath.Join(r.Dir, fmt.Sprintf("%d-%d.run", keys, i)))
		if err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
		info, err := writeStripe(f, keys, i)
		if err != nil {
			return m, err
		}
		run, err := keyrun.Open(f, info.Size, filters)
		if err != nil {
			return m, err
		}
		runs = append(runs, run)
		size += info.Size
	}
	set, err := keyrun.NewSet(runs...)
	if err != nil {
		return m, err
	}
	random := rand.New(rand.NewPCG(7, 8))
	m, err = r.measure(func(m *measured) error {
		for range r.Repeat {
			events := make([]supersede.Event, increment)
			for i := range events {
				events[i] = supersede.Event{Offset: kafkapos.Offset(keys) + kafkapos.Offset(i), Class: layout.Row, Hash: rankedHash(random.Int64N(keys), keys)}
			}
			plan, err := supersede.PlanIncrement(events, set)
			if err != nil {
				return err
			}
			if len(plan.Unfound) > 0 || len(plan.Marks) != increment {
				return fmt.Errorf("%d marks, %d keys not found", len(plan.Marks), len(plan.Unfound))
			}
			m.Events += increment
		}
		return nil
	})
	m.Bytes = size
	return m, err
}

// writeStripe writes every eighth key, from number i on, as the run of the i-th eighth of the offsets.
func writeStripe(f *os.File, keys, i int64) (keyrun.Info, error) {
	out := bufio.NewWriterSize(f, 1<<20)
	share := kafkapos.Offset(keys / lookupRuns)
	rng := kafkapos.Range{Start: kafkapos.Offset(i) * share, End: kafkapos.Offset(i+1) * share}
	w, err := keyrun.NewWriter(out, rng)
	if err != nil {
		return keyrun.Info{}, err
	}
	for n := range share {
		off := rng.Start + n
		if err := w.Add(keyrun.Entry{Hash: rankedHash(int64(n)*lookupRuns+i, keys), Lowest: off, Highest: off}); err != nil {
			return keyrun.Info{}, err
		}
	}
	info, err := w.Close()
	return info, errors.Join(err, out.Flush())
}

// rankedHash is the hash of rank j of so many keys: spread like a hash, and ascending.
func rankedHash(j, keys int64) (h keyrun.Hash) {
	step := ^uint64(0) / uint64(keys)
	noise := mix(uint64(j) + 1)
	binary.BigEndian.PutUint64(h[:8], uint64(j)*step+noise%step)
	binary.BigEndian.PutUint16(h[8:], uint16(noise>>48))
	return h
}
