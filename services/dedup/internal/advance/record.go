package advance

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Record makes sure that the row groups of a file over rng are recorded, where a cut named the file before its events
// were read and has been passed since: its chunk goes on in the newest cut, or begins higher. All events of rng are
// published. Errors: fault.ErrNotFound: they are not; fault.ErrRetired: the log no longer holds them, or files are
// encoded otherwise now; fault.ErrCorrupt: the log has other rows than what was published.
func (p *Planner) Record(ctx context.Context, s *Spec, rng kafkapos.Range) error {
	v, err := p.Store.View(ctx, s.Log)
	if err != nil {
		return err
	}
	c, err := p.Store.Chunk(ctx, v, s.number(rng.Start))
	if err != nil {
		return err
	}
	if c == nil || rng.Start < c.Known.Start || rng.End > c.Known.End {
		return fmt.Errorf("record the file over %s: %w: its events are not published", rng, fault.ErrNotFound)
	}
	have, err := p.Store.RowGroups(ctx, s.Log, c.RowGroups)
	if err != nil {
		return err
	}
	want := layout.RowGroups(rng, s.BlockLog2)
	found, missing := pick(want, have)
	if len(missing) > 0 {
		res, err := p.encodeGroups(ctx, s, c, missing)
		if err != nil {
			return err
		}
		if res.Encoding != c.Encoding || res.FileSchema != c.FileSchema {
			return fmt.Errorf("record the file over %s: it is encoded otherwise now: %w", rng, fault.ErrRetired)
		}
		found, _ = pick(want, append(found, res.RowGroups...))
	}
	b, err := state.RowGroupsBytes(found)
	if err != nil {
		return err
	}
	return p.Store.PutBlob(ctx, state.LogBlob(state.RowGroupKind, s.Log.Epoch, s.Log.Partition,
		state.RowGroupsSuffix(rng.End, uint64(v.Version), b)), b)
}
