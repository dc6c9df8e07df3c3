// Package advance moves the published part of a log: the backward walk down to the start, and increments up to
// the log's end. A plan is made from one version of the log's head and published by one compare-and-set of it;
// a plan that loses is rebased, not made again.
package advance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/runs"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Planner makes and publishes plans. Safe for concurrent use: plans for one log may be made side by side.
type Planner struct {
	Store        *state.Store
	Runs         *runs.Dir
	Materializer materializerv1.MaterializerServiceClient
	Metrics      Metrics

	// encodings has the scan.Encoding that scans last reported, by state epoch.
	encodings sync.Map
	remakes   atomic.Int64 // counts runs made again
}

// Metrics count what planners do.
type Metrics struct {
	ScannedEvents metric.Int64Counter // {event}: read by walks and increments
	Published     metric.Int64Counter // {range}: compare-and-sets won
	Rebased       metric.Int64Counter // {range}: plans rebased after a lost compare-and-set
	RunsRemade    metric.Int64Counter // {run}
	Walked        metric.Int64Counter // {offset}: published by walks
	FoldedMarks   metric.Int64Counter // {mark}
	FoldPasses    metric.Int64Counter // {pass}: compare-and-sets won
}

// NewMetrics registers the instruments.
func NewMetrics(m metric.Meter) (Metrics, error) {
	var out Metrics
	var errs []error
	for _, c := range []struct {
		dst              *metric.Int64Counter
		name, unit, what string
	}{
		{&out.ScannedEvents, "frazil.dedup.scanned_events", "{event}", "Events read by walks and increments."},
		{&out.Published, "frazil.dedup.published_ranges", "{range}", "Ranges of logs published."},
		{&out.Rebased, "frazil.dedup.rebased_ranges", "{range}", "Plans rebased after a lost compare-and-set."},
		{&out.Walked, "frazil.dedup.walked_offsets", "{offset}", "Offsets that walks have published."},
		{&out.FoldedMarks, "frazil.dedup.folded_marks", "{mark}", "Marks folded into groups between kept cuts."},
		{&out.FoldPasses, "frazil.dedup.fold_passes", "{pass}", "Passes of folding that published something."},
		{&out.RunsRemade, "frazil.dedup.remade_runs", "{run}", "Key runs that were lost and made again."},
	} {
		var err error
		*c.dst, err = m.Int64Counter(c.name, metric.WithUnit(c.unit), metric.WithDescription(c.what))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("make instruments: %w", err)
	}
	return out, nil
}

// Spec is what a plan needs to know beside the head.
type Spec struct {
	Log                  state.Log
	Table                *typesv1.TableSpec
	SchemaID             int32
	ChunkLog2, BlockLog2 int
	// Skip: undecodable records are frozen as BAD instead of stopping the log.
	Skip bool
	// LogStart is Kafka's log start: nothing below can be read.
	LogStart kafkapos.Offset
	// LeaderEpoch is the leader epoch under which the log was last found to continue; -1 unknown. What a later leader
	// wrote is not read, and what was read before a later leader was looked at is not published.
	LeaderEpoch kafkapos.LeaderEpoch
	// CutEnds are the ends, in this log, of the kept snapshots: counts stay exact for them.
	CutEnds []kafkapos.Offset
	// PieceOffsets and PieceBytes: small chunks are read and published several at a time, those of an aligned range of at
	// most so many offsets, whose files have about so many bytes together. A larger chunk is published by itself.
	PieceOffsets, PieceBytes int64
}

func (s *Spec) chunk(off kafkapos.Offset) kafkapos.Range { return layout.Chunk(off, s.ChunkLog2) }

func (s *Spec) number(off kafkapos.Offset) int64 { return int64(off) >> s.ChunkLog2 }

// file is the range of the file of a chunk when the log starts at start.
func file(known kafkapos.Range, start kafkapos.Offset) kafkapos.Range {
	return kafkapos.Range{Start: max(known.Start, start), End: known.End}
}

// Piece is a planned range of a log: scanned, with its marks, not yet published.
type Piece struct {
	Range kafkapos.Range
	// frontier and end are those of the head that it was planned on.
	frontier, end kafkapos.Offset
	scan          *scan.Result
	plan          supersede.Plan
}

// PlanWalk plans the next range below the frontier: the part of one chunk, or of several small ones, down to the offset
// to at most. nil: the frontier is there. ahead may have the range already, and is made to read the one after it; nil: no
// reading ahead. Errors: those of scan.Read, and of the state.
func (p *Planner) PlanWalk(ctx context.Context, s *Spec, v *state.View, to kafkapos.Offset, ahead *Ahead) (*Piece, error) {
	h := v.Head
	if h.Frontier <= to {
		return nil, nil
	}
	rng, err := p.walkRange(ctx, s, v, to, ahead)
	if err != nil {
		return nil, err
	}
	res, err := p.walkScan(ctx, s, v, rng, ahead)
	var stop *scan.Blocked
	if errors.As(err, &stop) && s.chunk(stop.Offset).End < rng.End {
		// What lies above its chunk can be published.
		rng.Start = s.chunk(stop.Offset).End
		res, err = p.walkScan(ctx, s, v, rng, nil)
	}
	if err != nil {
		return nil, err
	}
	if rng.Start > to {
		next := s.below(rng.Start, to, s.pieceLog2(res.Lowest(s.ChunkLog2)))
		ahead.read(ctx, next, func(ctx context.Context) (*scan.Result, error) {
			return p.scan(ctx, s, next, s.rowGroups(next, h.Start))
		})
	}
	above, release, err := p.set(ctx, s, v, kafkapos.Range{Start: h.Frontier, End: h.End})
	if err != nil {
		return nil, err
	}
	defer release()
	plan, err := supersede.PlanWalk(res.Events, above)
	if err != nil {
		return nil, fmt.Errorf("plan the walk of %s: %w", rng, err)
	}
	return &Piece{Range: rng, frontier: h.Frontier, end: h.End, scan: res, plan: plan}, nil
}

// PlanIncrement plans the next range above the scanned end, at most up to end: the rest of a chunk, with small ones that
// follow it, cut at a block boundary when more will follow. nil: end is covered.
func (p *Planner) PlanIncrement(ctx context.Context, s *Spec, v *state.View, end kafkapos.Offset) (*Piece, error) {
	h := v.Head
	if end <= h.End {
		return nil, nil
	}
	log2, err := p.pieceAt(ctx, s, v, h.End-1)
	if err != nil {
		return nil, err
	}
	// A chunk's end is a block boundary: what is cut there is closed for good.
	rng := kafkapos.Range{Start: h.End, End: min(end, layout.Chunk(h.End, log2).End)}
	groups, err := p.wanted(ctx, s, v, rng)
	if err != nil {
		return nil, err
	}
	res, err := p.scan(ctx, s, rng, groups)
	if err != nil {
		return nil, err
	}
	below, release, err := p.set(ctx, s, v, kafkapos.Range{Start: h.Frontier, End: h.End})
	if err != nil {
		return nil, err
	}
	defer release()
	plan, err := supersede.PlanIncrement(res.Events, below)
	if err != nil {
		return nil, fmt.Errorf("plan the increment %s: %w", rng, err)
	}
	return &Piece{Range: rng, frontier: h.Frontier, end: h.End, scan: res, plan: plan}, nil
}

// pick sorts the wanted row groups into the recorded ones and those that are missing.
func pick(want []kafkapos.Range, have []*typesv1.RowGroup) (found []*typesv1.RowGroup, missing []kafkapos.Range) {
	by := make(map[kafkapos.Range]*typesv1.RowGroup, len(have))
	for _, g := range have {
		by[scan.RangeOf(g)] = g
	}
	for _, w := range want {
		if g, ok := by[w]; ok {
			found = append(found, g)
		} else {
			missing = append(missing, w)
		}
	}
	return found, missing
}

func (p *Planner) scan(ctx context.Context, s *Spec, rng kafkapos.Range, groups []kafkapos.Range) (*scan.Result, error) {
	res, err := p.read(ctx, s, scan.Request{Range: rng, RowGroups: groups, Skip: s.Skip})
	if err != nil {
		return nil, err
	}
	p.Metrics.ScannedEvents.Add(ctx, res.Scanned)
	return res, nil
}

// read scans a range of the log and remembers with what its row groups are encoded. fault.ErrUnavailable: a later leader
// than that of the plan has written there, so that it may not continue what is published.
func (p *Planner) read(ctx context.Context, s *Spec, req scan.Request) (*scan.Result, error) {
	res, err := p.look(ctx, s, req)
	if err == nil && s.LeaderEpoch >= 0 && res.LeaderEpoch > s.LeaderEpoch {
		return nil, fmt.Errorf("partition %d %s was written under leader epoch %d, the log is known under %d: %w",
			s.Log.Partition, req.Range, res.LeaderEpoch, s.LeaderEpoch, fault.ErrUnavailable)
	}
	return res, err
}

// look is read, whoever has written.
func (p *Planner) look(ctx context.Context, s *Spec, req scan.Request) (*scan.Result, error) {
	req.Table, req.Partition, req.ChunkLog2 = s.Table, s.Log.Partition, s.ChunkLog2
	res, err := scan.Read(ctx, p.Materializer, req)
	if err != nil {
		return nil, err
	}
	p.encodings.Store(s.Log.Epoch, scan.Encoding{ID: res.Encoding, FileSchema: res.FileSchema})
	return res, nil
}

// current is fault.ErrUnavailable when the head is not of the leader epoch of the plan. Under a later one the log was
// looked at since, and what was read before may have been cut off; under an earlier one it was not looked at yet.
func (s *Spec) current(h *state.Head) error {
	if s.LeaderEpoch >= 0 && h.LeaderEpoch != s.LeaderEpoch {
		return fmt.Errorf("partition %d is known under leader epoch %d, the plan is of %d: %w",
			s.Log.Partition, h.LeaderEpoch, s.LeaderEpoch, fault.ErrUnavailable)
	}
	return nil
}

// Known answers with what the files of a state epoch are encoded now, if any scan has reported it.
func (p *Planner) Known(epoch string) (scan.Encoding, bool) {
	last, _ := p.encodings.Load(epoch)
	e, known := last.(scan.Encoding)
	return e, known
}

// Encoding answers with what the table's files are encoded now. It is asked for where no scan has reported it yet.
func (p *Planner) Encoding(ctx context.Context, s *Spec) (scan.Encoding, error) {
	if e, ok := p.Known(s.Log.Epoch); ok {
		return e, nil
	}
	return p.AskEncoding(ctx, s)
}

// AskEncoding asks with what the table's files are encoded now, whatever scans have reported.
func (p *Planner) AskEncoding(ctx context.Context, s *Spec) (scan.Encoding, error) {
	e, err := scan.ReadEncoding(ctx, p.Materializer, s.Table, s.Log.Partition)
	if err != nil {
		return scan.Encoding{}, err
	}
	p.encodings.Store(s.Log.Epoch, e)
	return e, nil
}

// rebase carries a plan over to the log as it is now. It answers false when what it would publish is published,
// or can no longer be published as it is.
func (p *Planner) rebase(ctx context.Context, s *Spec, pc *Piece, v *state.View) (bool, error) {
	h := v.Head
	var recent kafkapos.Range
	if pc.plan.Kind == supersede.Walk {
		if h.Frontier != pc.frontier {
			return false, nil
		}
		recent = kafkapos.Range{Start: pc.end, End: h.End}
	} else {
		if h.End != pc.end {
			return false, nil
		}
		recent = kafkapos.Range{Start: h.Frontier, End: pc.frontier}
	}
	if recent.Empty() {
		return true, nil
	}
	// Found keys cannot change; the others are looked up in what was published since. Runs may have merged
	// over the bound: a run that reaches over it can only hold keys that were looked up there in vain.
	set, release, err := p.meeting(ctx, s, v, recent)
	if err != nil {
		return false, err
	}
	defer release()
	plan, err := supersede.Rebase(pc.plan, set)
	if err != nil {
		return false, fmt.Errorf("rebase %s: %w", pc.Range, err)
	}
	pc.plan, pc.frontier, pc.end = plan, h.Frontier, h.End
	p.Metrics.Rebased.Add(ctx, 1)
	return true, nil
}

// Publish publishes a piece. published is false when another writer has published its range, or the log has
// changed so that the piece must be planned anew; nothing has changed then. fault.ErrUnavailable: the log is known
// under another leader epoch than that of the plan.
func (p *Planner) Publish(ctx context.Context, s *Spec, pc *Piece) (published bool, err error) {
	for {
		v, err := p.Store.View(ctx, s.Log)
		if err != nil {
			return false, fmt.Errorf("publish %s: %w", pc.Range, err)
		}
		if err := s.current(v.Head); err != nil {
			return false, fmt.Errorf("publish %s: %w", pc.Range, err)
		}
		ok, err := p.rebase(ctx, s, pc, v)
		if !ok || err != nil {
			return false, err
		}
		err = p.commitPiece(ctx, s, pc, v)
		if errors.Is(err, fault.ErrConflict) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("publish %s: %w", pc.Range, err)
		}
		p.Metrics.Published.Add(ctx, 1)
		if pc.plan.Kind == supersede.Walk {
			p.Metrics.Walked.Add(ctx, pc.Range.Len())
		}
		return true, nil
	}
}

// commitPiece writes everything that the piece adds, then the head.
func (p *Planner) commitPiece(ctx context.Context, s *Spec, pc *Piece, v *state.View) error {
	name := runs.Name(uint64(v.Version), pc.Range)
	if err := p.Runs.Write(s.Log, name, pc.Range, pc.plan.Run); err != nil {
		return err
	}
	d := newDraft(p.Store, s, v)
	d.addRun(state.RunRef{Name: name, Range: pc.Range, Entries: int64(len(pc.plan.Run))})
	if pc.plan.Kind == supersede.Walk {
		d.head.Frontier = pc.Range.Start
	} else {
		d.head.End = pc.Range.End
	}
	if pc.Range.End == d.head.End {
		d.head.Tail = pc.scan.Tail
	}
	d.head.LogStart = max(d.head.LogStart, s.LogStart, pc.scan.LogStart)
	if err := d.addScan(ctx, pc.scan); err != nil {
		return err
	}
	if err := d.addMarks(ctx, pc.plan.Marks, pc.plan.Kind == supersede.Walk); err != nil {
		return err
	}
	if err := d.tidySegments(ctx); err != nil {
		return err
	}
	if err := p.tidyRuns(s, d); err != nil {
		return err
	}
	return d.commit(ctx)
}
