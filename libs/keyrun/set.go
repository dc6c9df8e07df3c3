package keyrun

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Set is the runs of disjoint ranges of one partition. Immutable; safe for concurrent use. The zero value has
// no run and finds nothing.
type Set struct {
	runs []*Run // by ascending range
}

// NewSet takes runs in any order. fault.ErrInvalid: two of them overlap.
func NewSet(runs ...*Run) (Set, error) {
	s := Set{runs: slices.Clone(runs)}
	slices.SortFunc(s.runs, func(a, b *Run) int { return cmp.Compare(a.Range().Start, b.Range().Start) })
	for i := 1; i < len(s.runs); i++ {
		if a, b := s.runs[i-1].Range(), s.runs[i].Range(); b.Start < a.End {
			return Set{}, fmt.Errorf("set of runs: %s and %s overlap: %w", a, b, fault.ErrInvalid)
		}
	}
	return s, nil
}

// Runs answers the runs by ascending range. The caller may not change the slice.
func (s Set) Runs() []*Run { return s.runs }

// Meeting is the runs that have an offset of rng, and perhaps others.
func (s Set) Meeting(rng kafkapos.Range) Set {
	var out Set
	for _, r := range s.runs {
		if !r.Range().Intersect(rng).Empty() {
			out.runs = append(out.runs, r)
		}
	}
	return out
}

// Within is the runs of exactly rng: fault.ErrInvalid if one reaches over a bound of it, or if a part of it
// has no run.
func (s Set) Within(rng kafkapos.Range) (Set, error) {
	out := s.Meeting(rng)
	at := rng.Start
	for _, r := range out.runs {
		if r.Range().Start != at {
			return Set{}, fmt.Errorf("runs of %s: none begins at %d: %w", rng, at, fault.ErrInvalid)
		}
		at = r.Range().End
	}
	if at != rng.End && !rng.Empty() {
		return Set{}, fmt.Errorf("runs of %s end at %d: %w", rng, at, fault.ErrInvalid)
	}
	return out, nil
}

// Lowest fills dst with the lowest offset of each hash in any run, None where there is none. hashes ascends
// without duplicates. Errors: fault.ErrCorrupt, or a read error; dst is then undefined.
func (s Set) Lowest(hashes []Hash, dst []kafkapos.Offset) error {
	reset(dst)
	l := lookup{hashes: hashes, dst: dst, want: lowest}
	for _, r := range s.runs {
		if err := l.in(r); err != nil {
			return fmt.Errorf("look up in the run of %s: %w", r.Range(), err)
		}
	}
	return nil
}

// Highest is Lowest for the highest offset.
func (s Set) Highest(hashes []Hash, dst []kafkapos.Offset) error {
	reset(dst)
	l := lookup{hashes: hashes, dst: dst, want: highest}
	for _, r := range slices.Backward(s.runs) {
		if err := l.in(r); err != nil {
			return fmt.Errorf("look up in the run of %s: %w", r.Range(), err)
		}
	}
	return nil
}

func reset(dst []kafkapos.Offset) {
	for i := range dst {
		dst[i] = None
	}
}
