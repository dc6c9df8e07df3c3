// Package supersede finds which events are superseded. It is pure: events and an index go in, marks and the
// run of the range come out. Order is the offset; nothing else overrides it.
//
// Inside a range each event is superseded by the next newer one of its key. A walk, which adds a range below
// everything that is published, has the newest event of each key superseded by the lowest offset of that key
// above. An increment, which adds a range above, has the oldest event of each key supersede the highest offset
// of that key below. So every event is marked at most once, with its nearest newer event, however the log is
// cut into walks and increments, and nothing that was published changes.
package supersede

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
)

// Event is an offset with a key.
type Event struct {
	Offset kafkapos.Offset
	Hash   keyrun.Hash
	// Class is layout.Row or layout.Delete. Offsets of other classes have no key and take no part: they are
	// skipped, whatever their hash.
	Class layout.Class
}

// Mark says that the event at Older is superseded by the nearest newer event of its key, at Newer.
type Mark struct {
	Older, Newer kafkapos.Offset
}

// Index answers where keys occur in the published part of a partition. hashes is ascending without
// duplicates; dst has the same length and receives an offset, or keyrun.None, for each. keyrun.Set is one.
type Index interface {
	Lowest(hashes []keyrun.Hash, dst []kafkapos.Offset) error
	Highest(hashes []keyrun.Hash, dst []kafkapos.Offset) error
}

// Kind is the direction in which a plan's range is added.
type Kind uint8

const (
	// Walk adds a range below everything that is published.
	Walk Kind = iota + 1
	// Increment adds a range above.
	Increment
)

// Plan is what publishing a range needs: its marks and its run.
type Plan struct {
	Kind Kind
	// Marks is the new marks, in no particular order.
	Marks []Mark
	// Run is the keys of the range by ascending hash.
	Run []keyrun.Entry
	// Unfound is the entries of Run whose key the index did not have: what a rebase looks up again.
	Unfound []keyrun.Entry
}

// PlanWalk plans the walk of the events of one range. above has the runs of everything published above it:
// [frontier, scanned end).
func PlanWalk(events []Event, above Index) (Plan, error) { return plan(Walk, events, above) }

// PlanIncrement plans the increment of the events of one range. below has the runs of everything published
// below it: [frontier, start of the range). A key that is not found there may live below the frontier: the
// walk finds it.
func PlanIncrement(events []Event, below Index) (Plan, error) { return plan(Increment, events, below) }

func plan(kind Kind, events []Event, index Index) (Plan, error) {
	p := Plan{Kind: kind}
	p.Marks, p.Run = Inside(events)
	p.Unfound = p.Run
	return Rebase(p, index)
}

// Rebase carries a plan that lost its compare-and-set over what was published since: recent has the runs of
// [planned end, end) for a walk, of [frontier, planned frontier) for an increment, and may have more. Only
// keys that were not found are looked up: found ones cannot change. The plan given stays as it was.
func Rebase(p Plan, recent Index) (Plan, error) {
	lookup := recent.Lowest
	if p.Kind == Increment {
		lookup = recent.Highest
	} else if p.Kind != Walk {
		return Plan{}, fmt.Errorf("rebase a plan of kind %d: %w", p.Kind, fault.ErrInvalid)
	}
	hashes := make([]keyrun.Hash, len(p.Unfound))
	for i, e := range p.Unfound {
		hashes[i] = e.Hash
	}
	found := make([]kafkapos.Offset, len(hashes))
	if err := lookup(hashes, found); err != nil {
		return Plan{}, fmt.Errorf("look up %d keys: %w", len(hashes), err)
	}
	out := Plan{Kind: p.Kind, Run: p.Run, Marks: p.Marks[:len(p.Marks):len(p.Marks)]}
	for i, off := range found {
		m, e := Mark{}, p.Unfound[i]
		switch {
		case off == keyrun.None:
			out.Unfound = append(out.Unfound, e)
			continue
		case p.Kind == Walk:
			m = Mark{Older: e.Highest, Newer: off}
		default:
			m = Mark{Older: off, Newer: e.Lowest}
		}
		if m.Newer <= m.Older {
			return Plan{}, fmt.Errorf("offset %d superseded by %d: the index overlaps the range: %w", m.Older, m.Newer, fault.ErrInvalid)
		}
		out.Marks = append(out.Marks, m)
	}
	return out, nil
}
