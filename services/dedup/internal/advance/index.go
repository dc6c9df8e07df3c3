package advance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
	"github.com/frazil-io/frazil/services/dedup/internal/runs"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

const (
	// runFanIn is how many neighbouring runs of about one size are merged.
	runFanIn = 4
	// maxInline is how many entries are merged within a publish at most.
	maxInline = 1 << 18
)

// index is the runs of a range, which are made again while they are looked up where they turn out damaged.
type index struct {
	keyrun.Set
}

// set opens the runs of exactly rng; lost ones are made again first.
func (p *Planner) set(ctx context.Context, s *Spec, v *state.View, rng kafkapos.Range) (supersede.Index, func(), error) {
	set, release, err := p.meeting(ctx, s, v, rng)
	if err != nil {
		return nil, nil, err
	}
	within, err := set.Within(rng)
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("runs of %s: %w: %w", rng, err, fault.ErrCorrupt)
	}
	return index{within}, release, nil
}

// meeting opens the runs that have an offset of rng.
func (p *Planner) meeting(ctx context.Context, s *Spec, v *state.View, rng kafkapos.Range) (index, func(), error) {
	var refs []state.RunRef
	for _, r := range v.Root.Runs {
		if !r.Range.Intersect(rng).Empty() {
			refs = append(refs, r)
		}
	}
	for range 2*len(refs) + 1 {
		set, release, err := p.Runs.Set(s.Log, refs)
		var lost *runs.Lost
		if !errors.As(err, &lost) {
			return index{set}, release, err
		}
		if err := p.remake(ctx, s, lost.Ref); err != nil {
			return index{}, nil, fmt.Errorf("make run %s again: %w", lost.Ref.Name, err)
		}
	}
	return index{}, nil, fmt.Errorf("runs of %s are lost as soon as they are made: %w", rng, fault.ErrUnavailable)
}

// Check reads every run of the log whole and makes the damaged ones again.
func (p *Planner) Check(ctx context.Context, s *Spec) error {
	v, err := p.Store.View(ctx, s.Log)
	if err != nil {
		return err
	}
	for _, ref := range v.Root.Runs {
		set, release, err := p.Runs.Set(s.Log, []state.RunRef{ref})
		if err == nil {
			err = readable(set.Runs()[0])
			release()
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrNotFound) {
			return err
		}
		if err := p.remake(ctx, s, ref); err != nil {
			return fmt.Errorf("make run %s again: %w", ref.Name, err)
		}
	}
	return nil
}

func readable(r *keyrun.Run) error {
	for _, err := range r.All() {
		if err != nil {
			return err
		}
	}
	return nil
}

// remake makes a lost run from what Kafka still has of its range: what retention has taken is below every start.
func (p *Planner) remake(ctx context.Context, s *Spec, ref state.RunRef) error {
	p.Metrics.RunsRemade.Add(ctx, 1)
	// A walk and an increment of a log may miss the same run at once: each makes it from parts of its own.
	attempt := p.remakes.Add(1)
	var parts []state.RunRef
	defer func() {
		for _, r := range parts {
			_ = p.Runs.Remove(s.Log, r.Name) // collected later at the worst
		}
	}()
	for chunk := range layout.Chunks(ref.Range, s.ChunkLog2) {
		rng := chunk.Intersect(ref.Range)
		entries, err := p.keysOf(ctx, s, kafkapos.Range{Start: max(rng.Start, s.LogStart), End: rng.End})
		if err != nil {
			return err
		}
		part := state.RunRef{Name: fmt.Sprintf("0-part-%d-%s-%s", attempt, ref.Name, runs.Name(0, rng)), Range: rng}
		defer p.Runs.Hold(s.Log, part.Name)() // the whole may take longer than what nothing names is left alone
		if err := p.Runs.Write(s.Log, part.Name, rng, entries); err != nil {
			return err
		}
		parts = append(parts, part)
	}
	set, release, err := p.Runs.Set(s.Log, parts)
	if err != nil {
		return err
	}
	defer release()
	_, err = p.Runs.Merge(s.Log, ref.Name, set)
	return err
}

// keysOf reads the keys of a range, which may be empty.
func (p *Planner) keysOf(ctx context.Context, s *Spec, rng kafkapos.Range) ([]keyrun.Entry, error) {
	if rng.Empty() {
		return nil, nil
	}
	// Skip: what these records are was decided when they were published.
	res, err := p.read(ctx, s, scan.Request{Range: rng, Skip: true})
	if err != nil {
		return nil, err
	}
	_, entries := supersede.Inside(res.Events)
	return entries, nil
}

// tidyRuns merges small neighbouring runs of about one size, so that a lookup reads few of them.
func (p *Planner) tidyRuns(s *Spec, d *draft) error {
	for {
		i := crowdedRuns(d.root.Runs, maxInline)
		if i < 0 {
			return nil
		}
		merged, err := p.mergeRuns(s.Log, d.root.Runs[i:i+runFanIn], runs.Name(uint64(d.view.Version), spanOf(d.root.Runs[i:i+runFanIn])))
		if merged == nil || err != nil {
			return err
		}
		d.root.Runs = slices.Replace(d.root.Runs, i, i+runFanIn, *merged)
	}
}

// MergeRuns merges neighbouring runs of about one size, whatever their size, and answers whether there were any. It
// is not part of a publish, since it may take long: it changes nothing that a lookup finds.
func (p *Planner) MergeRuns(ctx context.Context, log state.Log) (merged bool, err error) {
	v, err := p.Store.View(ctx, log)
	if err != nil {
		return false, err
	}
	i := crowdedRuns(v.Root.Runs, math.MaxInt64)
	if i < 0 {
		return false, nil
	}
	refs := slices.Clone(v.Root.Runs[i : i+runFanIn])
	// A publish may be merging the same runs: the file has another name than its.
	ref, err := p.mergeRuns(log, refs, runs.Name(uint64(v.Version), spanOf(refs))+"-beside")
	if ref == nil || err != nil {
		return false, err
	}
	for {
		at := slices.Index(v.Root.Runs, refs[0])
		if at < 0 || at+runFanIn > len(v.Root.Runs) || !slices.Equal(v.Root.Runs[at:at+runFanIn], refs) {
			return false, nil // merged otherwise meanwhile
		}
		d := newDraft(p.Store, &Spec{Log: log}, v)
		d.root.Runs = slices.Replace(d.root.Runs, at, at+runFanIn, *ref)
		err := d.commit(ctx)
		if err == nil || !errors.Is(err, fault.ErrConflict) {
			return err == nil, err
		}
		if v, err = p.Store.View(ctx, log); err != nil {
			return false, err
		}
	}
}

// Crowded reports whether MergeRuns would find something to merge.
func (p *Planner) Crowded(ctx context.Context, log state.Log) bool {
	v, err := p.Store.View(ctx, log)
	return err == nil && crowdedRuns(v.Root.Runs, math.MaxInt64) >= 0
}

// mergeRuns writes one run of several neighbours. nil: one of them is lost; the next lookup makes it again.
func (p *Planner) mergeRuns(log state.Log, refs []state.RunRef, name string) (*state.RunRef, error) {
	set, release, err := p.Runs.Set(log, refs)
	var lost *runs.Lost
	if errors.As(err, &lost) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer release()
	entries, err := p.Runs.Merge(log, name, set)
	if errors.Is(err, fault.ErrCorrupt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &state.RunRef{Name: name, Range: spanOf(refs), Entries: entries}, nil
}

func spanOf(refs []state.RunRef) kafkapos.Range {
	return kafkapos.Range{Start: refs[0].Range.Start, End: refs[len(refs)-1].Range.End}
}

// crowdedRuns answers where runFanIn neighbours of about one size begin, with at most limit entries together; -1 if
// nowhere.
func crowdedRuns(refs []state.RunRef, limit int64) int {
	for i := 0; i+runFanIn <= len(refs); i++ {
		same, total := true, int64(0)
		for _, r := range refs[i : i+runFanIn] {
			same = same && runTier(r) == runTier(refs[i])
			total += r.Entries
		}
		if same && total <= limit {
			return i
		}
	}
	return -1
}

func runTier(r state.RunRef) int { return (bits.Len64(uint64(max(r.Entries, 1)>>10)) + 1) / 2 }
