package supersede_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/supersede"
)

func event(off kafkapos.Offset, key byte, c layout.Class) supersede.Event {
	return supersede.Event{Offset: off, Hash: keyrun.Hash{key}, Class: c}
}

// index knows the published offsets of each key.
type index map[keyrun.Hash][]kafkapos.Offset

func (x index) Lowest(hashes []keyrun.Hash, dst []kafkapos.Offset) error {
	return x.find(hashes, dst, slices.Min[[]kafkapos.Offset])
}

func (x index) Highest(hashes []keyrun.Hash, dst []kafkapos.Offset) error {
	return x.find(hashes, dst, slices.Max[[]kafkapos.Offset])
}

func (x index) find(hashes []keyrun.Hash, dst []kafkapos.Offset, of func([]kafkapos.Offset) kafkapos.Offset) error {
	if !slices.IsSortedFunc(hashes, keyrun.Hash.Compare) {
		return errors.New("hashes do not ascend")
	}
	for i, h := range hashes {
		dst[i] = keyrun.None
		if offs := x[h]; len(offs) > 0 {
			dst[i] = of(offs)
		}
	}
	return nil
}

func sorted(ms []supersede.Mark) []supersede.Mark {
	out := slices.Clone(ms)
	slices.SortFunc(out, func(a, b supersede.Mark) int { return int(a.Older - b.Older) })
	return out
}

// TestInside: neighbours of a key supersede each other, deletes like rows; what has no key takes no part.
func TestInside(t *testing.T) {
	ms, run := supersede.Inside([]supersede.Event{
		event(10, 'b', layout.Row),
		event(11, 'a', layout.Row),
		event(12, 'b', layout.Delete),
		event(13, 'b', layout.Row),
		event(14, 'b', layout.Bad),
		event(15, 'a', layout.Truncate),
	})
	if want := []supersede.Mark{{Older: 10, Newer: 12}, {Older: 12, Newer: 13}}; !slices.Equal(sorted(ms), want) {
		t.Errorf("marks %v, want %v", ms, want)
	}
	want := []keyrun.Entry{{Hash: keyrun.Hash{'a'}, Lowest: 11, Highest: 11}, {Hash: keyrun.Hash{'b'}, Lowest: 10, Highest: 13}}
	if !slices.Equal(run, want) {
		t.Errorf("run %v, want %v", run, want)
	}
}

// TestAWalkIsRebasedNotRedone: a key that was found keeps its mark; one that was not is looked up in what was
// published since.
func TestAWalkIsRebasedNotRedone(t *testing.T) {
	p, err := supersede.PlanWalk([]supersede.Event{event(1, 'a', layout.Row), event(2, 'b', layout.Row), event(3, 'c', layout.Row)},
		index{{'a'}: {10, 12}})
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(p.Marks)
	q, err := supersede.Rebase(p, index{{'a'}: {20}, {'b'}: {21, 22}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []supersede.Mark{{Older: 1, Newer: 10}, {Older: 2, Newer: 21}}; !slices.Equal(sorted(q.Marks), want) {
		t.Errorf("marks %v, want %v", q.Marks, want)
	}
	if len(q.Unfound) != 1 || q.Unfound[0].Hash != (keyrun.Hash{'c'}) || !slices.Equal(p.Marks, before) || len(p.Unfound) != 2 {
		t.Errorf("unfound %v; the old plan has marks %v, unfound %v", q.Unfound, p.Marks, p.Unfound)
	}
}

func TestAnIncrementSupersedesTheHighest(t *testing.T) {
	p, err := supersede.PlanIncrement([]supersede.Event{event(30, 'a', layout.Delete), event(31, 'a', layout.Row), event(32, 'b', layout.Row)},
		index{{'a'}: {10, 12}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []supersede.Mark{{Older: 12, Newer: 30}, {Older: 30, Newer: 31}}; !slices.Equal(sorted(p.Marks), want) {
		t.Errorf("marks %v, want %v", p.Marks, want)
	}
	q, err := supersede.Rebase(p, index{{'b'}: {3, 4}})
	if err != nil || len(q.Unfound) != 0 || !slices.Contains(q.Marks, supersede.Mark{Older: 4, Newer: 32}) {
		t.Errorf("rebased over a walked chunk: %+v, %v", q, err)
	}
}

// TestAnIndexThatOverlapsTheRangeIsRefused: it would mark an event by an older one.
func TestAnIndexThatOverlapsTheRangeIsRefused(t *testing.T) {
	events := []supersede.Event{event(10, 'a', layout.Row)}
	if _, err := supersede.PlanWalk(events, index{{'a'}: {10}}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("walk: %v", err)
	}
	if _, err := supersede.PlanIncrement(events, index{{'a'}: {11}}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("increment: %v", err)
	}
}

func TestAFailedLookupIsNoAnswer(t *testing.T) {
	broken := failing{fault.ErrCorrupt}
	if _, err := supersede.PlanWalk([]supersede.Event{event(1, 'a', layout.Row)}, broken); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("walk: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Lowest([]keyrun.Hash, []kafkapos.Offset) error  { return f.err }
func (f failing) Highest([]keyrun.Hash, []kafkapos.Offset) error { return f.err }

func BenchmarkInside(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	events := make([]supersede.Event, 1<<20)
	for i := range events {
		events[i] = supersede.Event{Offset: kafkapos.Offset(i), Class: layout.Row}
		binary.BigEndian.PutUint64(events[i].Hash[:], r.Uint64N(1<<19)*0x9E3779B97F4A7C15)
	}
	b.ResetTimer()
	for range b.N {
		supersede.Inside(events)
	}
	b.ReportMetric(float64(len(events)*b.N)/b.Elapsed().Seconds(), "events/s")
}
