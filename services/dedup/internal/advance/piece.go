package advance

import (
	"context"
	"slices"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// pieceLog2 is log2 of the aligned ranges that are read and published at a time where the file over so many offsets has
// so many bytes: at least a chunk.
func (s *Spec) pieceLog2(bytes, offsets int64) int {
	log2 := s.ChunkLog2
	for offsets > 0 && 2<<log2 <= s.PieceOffsets && bytes*(2<<log2)/offsets <= s.PieceBytes {
		log2++
	}
	return log2
}

// pieceAt is pieceLog2 by what is published of the chunk of off. Where that says nothing it is a chunk.
func (p *Planner) pieceAt(ctx context.Context, s *Spec, v *state.View, off kafkapos.Offset) (int, error) {
	if int64(2)<<s.ChunkLog2 > s.PieceOffsets || off < v.Head.Frontier || off >= v.Head.End {
		return s.ChunkLog2, nil
	}
	c, err := p.Store.Chunk(ctx, v, s.number(off))
	if c == nil || err != nil || !c.Complete {
		return s.ChunkLog2, err
	}
	return s.pieceLog2(c.FileBytes, file(c.Known, v.Head.Start).Len()), nil
}

// below is the part of an aligned range that lies between to and the frontier.
func (s *Spec) below(frontier, to kafkapos.Offset, log2 int) kafkapos.Range {
	return kafkapos.Range{Start: max(layout.Chunk(frontier-1, log2).Start, to), End: frontier}
}

// walkRange is the range that a walk down to an offset reads next: the one that is being read ahead, if it does not lie
// below that offset.
func (p *Planner) walkRange(ctx context.Context, s *Spec, v *state.View, to kafkapos.Offset, ahead *Ahead) (kafkapos.Range, error) {
	if rng, ok := ahead.reading(); ok && rng.End == v.Head.Frontier && rng.Start >= to {
		return rng, nil
	}
	log2, err := p.pieceAt(ctx, s, v, v.Head.Frontier)
	return s.below(v.Head.Frontier, to, log2), err
}

// walkScan reads a range of a walk, or takes it from what was read ahead.
func (p *Planner) walkScan(ctx context.Context, s *Spec, v *state.View, rng kafkapos.Range, ahead *Ahead) (*scan.Result, error) {
	groups, err := p.walkGroups(ctx, s, v, rng)
	if err != nil {
		return nil, err
	}
	return ahead.take(rng, func() (*scan.Result, error) { return p.scan(ctx, s, rng, groups) })
}

// walkGroups is the row groups of the files of rng's chunks that a walk over rng can make. Above rng there may be what
// increments have published of the last one: row groups that reach into it are left to Complete.
func (p *Planner) walkGroups(ctx context.Context, s *Spec, v *state.View, rng kafkapos.Range) ([]kafkapos.Range, error) {
	known := rng
	c, err := p.Store.Chunk(ctx, v, s.number(rng.End-1))
	if err != nil {
		return nil, err
	}
	if c != nil {
		known.End = c.Known.End
	}
	groups := s.rowGroups(known, v.Head.Start)
	return slices.DeleteFunc(groups, func(g kafkapos.Range) bool { return g.End > rng.End }), nil
}

// rowGroups is the row groups of the files over rng, one per chunk, when the log starts at start.
func (s *Spec) rowGroups(rng kafkapos.Range, start kafkapos.Offset) (groups []kafkapos.Range) {
	for chunk := range layout.Chunks(rng, s.ChunkLog2) {
		groups = append(groups, layout.RowGroups(file(chunk.Intersect(rng), start), s.BlockLog2)...)
	}
	return groups
}

// wanted is the row groups that the files of rng's chunks will name and that are not recorded: the open rest, and merged
// groups that begin below rng.
func (p *Planner) wanted(ctx context.Context, s *Spec, v *state.View, rng kafkapos.Range) (missing []kafkapos.Range, err error) {
	for chunk := range layout.Chunks(rng, s.ChunkLog2) {
		if v.Head.Frontier > max(v.Head.Start, chunk.Start) {
			continue // the file begins below what is known: the walk makes it
		}
		known := chunk.Intersect(rng)
		var have []*typesv1.RowGroup
		c, err := p.Store.Chunk(ctx, v, s.number(chunk.Start))
		if err != nil {
			return nil, err
		}
		if c != nil {
			known.Start = c.Known.Start
			if have, err = p.Store.RowGroups(ctx, v.Log, c.RowGroups); err != nil {
				return nil, err
			}
		}
		_, more := pick(layout.RowGroups(file(known, v.Head.Start), s.BlockLog2), have)
		missing = append(missing, more...)
	}
	return missing, nil
}
