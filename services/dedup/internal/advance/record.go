package advance

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Record makes sure that the row groups of a file over rng are recorded, where the newest cut does not show it: its
// chunk goes on, or begins higher, since a cut named the file before its events were read, or before the encoder
// changed. It answers the row groups, ascending, those without rows included. All events of rng are published. Errors:
// fault.ErrNotFound: they are not; fault.ErrRetired: the log no longer holds them, or files are encoded otherwise now;
// fault.ErrCorrupt: the log has other rows than what was published.
func (p *Planner) Record(ctx context.Context, s *Spec, rng kafkapos.Range) ([]*typesv1.RowGroup, error) {
	v, err := p.Store.View(ctx, s.Log)
	if err != nil {
		return nil, err
	}
	c, err := p.Store.Chunk(ctx, v, s.number(rng.Start))
	if err != nil {
		return nil, err
	}
	if c == nil || rng.Start < c.Known.Start || rng.End > c.Known.End {
		return nil, fmt.Errorf("record the file over %s: %w: its events are not published", rng, fault.ErrNotFound)
	}
	have, err := p.Store.RowGroups(ctx, s.Log, c.RowGroups)
	if err != nil {
		return nil, err
	}
	want := layout.RowGroups(rng, s.BlockLog2)
	found, missing := pick(want, have)
	if len(missing) > 0 {
		res, err := p.encodeGroups(ctx, s, c, missing)
		if err != nil {
			return nil, err
		}
		if res.Encoding != c.Encoding || res.FileSchema != c.FileSchema {
			return nil, fmt.Errorf("record the file over %s: it is encoded otherwise now: %w", rng, fault.ErrRetired)
		}
		found, _ = pick(want, append(found, res.RowGroups...))
	}
	b, err := state.RowGroupsBytes(found)
	if err != nil {
		return nil, err
	}
	return found, p.Store.PutBlob(ctx, state.LogBlob(state.RowGroupKind, s.Log.Epoch, s.Log.Partition,
		state.RowGroupsSuffix(rng.End, uint64(v.Version), b)), b)
}
