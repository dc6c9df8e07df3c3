package advance

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Begin makes the head of a log that has none: an empty published range at end. Another writer's head stays.
func (p *Planner) Begin(ctx context.Context, s *Spec, start, end kafkapos.Offset) error {
	h := &state.Head{
		LeaderEpoch: s.LeaderEpoch, Frontier: end, End: end, Start: min(start, end), LogStart: s.LogStart,
		Tail: state.Tail{From: -1},
	}
	err := p.Store.SetHead(ctx, s.Log, 0, h)
	if err != nil && !errors.Is(err, fault.ErrConflict) {
		return fmt.Errorf("begin partition %d: %w", s.Log.Partition, err)
	}
	return nil
}

// Note publishes what was learned about the log beside its events: a higher start, a higher log start. Nothing goes
// back. It publishes nothing when nothing is new.
func (p *Planner) Note(ctx context.Context, s *Spec, start kafkapos.Offset) error {
	for {
		h, version, err := p.Store.Head(ctx, s.Log)
		if err != nil {
			return err
		}
		n := *h
		n.Start = max(h.Start, min(start, h.End))
		n.LogStart = max(h.LogStart, s.LogStart)
		if s.LogStart > h.End {
			// Everything that is published is gone, and what came after it too: begin again above.
			n.Frontier, n.End, n.Start = s.LogStart, s.LogStart, s.LogStart
			n.Tail, n.Directory = state.Tail{From: -1}, ""
		}
		if n == *h {
			return nil
		}
		err = p.Store.SetHead(ctx, s.Log, version, &n)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err
		}
	}
}

// Verify reads the end of the published part again, and notes the leader epoch under which it is there. false: it is
// not the log that was published, or no longer reaches as far: it was truncated, or is another one. Nothing below the
// published end was written under a later leader than the head knows: whatever was has replaced what was published. An
// end below the published one proves nothing alone: another replica has looked later. A log of which nothing near the
// end can be read any more, because retention took it, is taken for the same. What others publish meanwhile is looked
// at as well: h is the head that was looked at last.
func (p *Planner) Verify(ctx context.Context, s *Spec, end kafkapos.Offset) (same bool, h *state.Head, err error) {
	for {
		h, version, err := p.Store.Head(ctx, s.Log)
		if err != nil {
			return false, nil, err
		}
		if same, err := p.verify(ctx, s, h, end); !same || err != nil {
			return false, h, err
		}
		if h.LeaderEpoch >= s.LeaderEpoch {
			return true, h, nil
		}
		n := *h
		n.LeaderEpoch = s.LeaderEpoch
		err = p.Store.SetHead(ctx, s.Log, version, &n)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err == nil, &n, err
		}
	}
}

func (p *Planner) verify(ctx context.Context, s *Spec, h *state.Head, end kafkapos.Offset) (same bool, err error) {
	unread := h.Tail.From < 0
	rng := kafkapos.Range{Start: h.Tail.From, End: h.End}
	if unread {
		rng.Start = h.End - 1
	}
	if rng.Start < max(s.LogStart, h.LogStart) {
		return true, nil
	}
	res, err := p.look(ctx, s, scan.Request{Range: rng, Skip: true})
	switch {
	case errors.Is(err, fault.ErrRetired) && end < h.End:
		return false, nil
	case err != nil: // also Retired: retention moves on while we look
		return false, fmt.Errorf("read the end of partition %d again: %w", s.Log.Partition, err)
	case h.LeaderEpoch >= 0 && res.LeaderEpoch > h.LeaderEpoch:
		return false, nil
	}
	return unread || res.Tail == h.Tail, nil
}

// Complete records the row groups of a chunk's file that are not recorded: those that a new start cuts anew, or
// all of them when the encoder has changed. The classes stay as they were frozen.
func (p *Planner) Complete(ctx context.Context, s *Spec, number int64) error {
	for {
		v, err := p.Store.View(ctx, s.Log)
		if err == nil {
			err = s.current(v.Head)
		}
		if err != nil {
			return err
		}
		c, err := p.Store.Chunk(ctx, v, number)
		if c == nil || err != nil {
			return err
		}
		res, err := p.encode(ctx, s, v, c)
		if res == nil || err != nil {
			return err
		}
		d := newDraft(p.Store, s, v)
		if c, err = d.chunk(ctx, number); err != nil {
			return err
		}
		if err := d.record(ctx, c, res); err != nil {
			return err
		}
		err = d.commit(ctx)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err
		}
	}
}

// encode scans the missing row groups of a chunk's file; nil if none is missing.
func (p *Planner) encode(ctx context.Context, s *Spec, v *state.View, c *state.Chunk) (*scan.Result, error) {
	have, err := p.Store.RowGroups(ctx, s.Log, c.RowGroups)
	if err != nil {
		return nil, err
	}
	if p.outdated(s, c) {
		have = nil
	}
	_, missing := pick(layout.RowGroups(file(c.Known, v.Head.Start), s.BlockLog2), have)
	if len(missing) == 0 {
		return nil, nil
	}
	return p.encodeGroups(ctx, s, c, missing)
}

// encodeGroups scans row groups of a chunk, ascending, at least one. The classes of their offsets are as they were
// frozen.
func (p *Planner) encodeGroups(ctx context.Context, s *Spec, c *state.Chunk, groups []kafkapos.Range) (*scan.Result, error) {
	res, err := p.read(ctx, s, scan.Request{
		RowGroups: groups, Skip: true, Range: kafkapos.Range{Start: groups[0].Start, End: groups[len(groups)-1].End},
	})
	if err != nil {
		return nil, err
	}
	frozen, err := p.Store.Layout(ctx, s.Log, c)
	if err != nil {
		return nil, err
	}
	for i, g := range res.RowGroups {
		if want := frozen.Rows(groups[i]); g.GetRows() != want {
			return nil, fmt.Errorf("partition %d %s holds %d rows, %d were published: %w",
				s.Log.Partition, groups[i], g.GetRows(), want, fault.ErrCorrupt)
		}
	}
	return res, nil
}

// Covers reports whether every row group of the chunk's file is recorded when the log starts at start.
func (p *Planner) Covers(ctx context.Context, s *Spec, c *state.Chunk, start kafkapos.Offset) (bool, error) {
	if p.outdated(s, c) {
		return false, nil
	}
	if c.Known.Start >= start {
		return c.Complete, nil
	}
	have, err := p.Store.RowGroups(ctx, s.Log, c.RowGroups)
	if err != nil {
		return false, err
	}
	_, missing := pick(layout.RowGroups(file(c.Known, start), s.BlockLog2), have)
	return len(missing) == 0, nil
}

// outdated reports whether the chunk's row groups were recorded with another encoder than the present one.
func (p *Planner) outdated(s *Spec, c *state.Chunk) bool {
	now, known := p.Known(s.Log.Epoch)
	return known && c.Encoding != "" && c.Encoding != now.ID
}
