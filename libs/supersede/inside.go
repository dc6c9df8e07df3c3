package supersede

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
)

// Inside answers the marks between neighbouring events of a key within one range, in no particular order, and
// the range's run: its keys by ascending hash. Events may come in any order, which is not changed; an offset
// comes once.
func Inside(events []Event) ([]Mark, []keyrun.Entry) {
	sorted := byKey(events)
	keys := 0
	for i := range sorted {
		if i == 0 || sorted[i].Hash != sorted[i-1].Hash {
			keys++
		}
	}
	run := make([]keyrun.Entry, 0, keys)
	marks := make([]Mark, 0, len(sorted)-keys)
	for i, e := range sorted {
		if i == 0 || e.Hash != sorted[i-1].Hash {
			run = append(run, keyrun.Entry{Hash: e.Hash, Lowest: e.Offset, Highest: e.Offset})
			continue
		}
		marks = append(marks, Mark{Older: sorted[i-1].Offset, Newer: e.Offset})
		run[len(run)-1].Highest = e.Offset
	}
	return marks, run
}

// bucketBits is the number of leading hash bits by which events are dealt out before they are sorted: with
// the buckets in the processor's cache, sorting them is several times as fast as sorting all at once.
const bucketBits = 11

// byKey answers the events that have a key, by (hash, offset).
func byKey(events []Event) []Event {
	var ends [1<<bucketBits + 1]int
	n := 0
	for i := range events {
		if hasKey(events[i].Class) {
			ends[bucket(events[i].Hash)+1]++
			n++
		}
	}
	for i := range len(ends) - 1 {
		ends[i+1] += ends[i]
	}
	at := ends
	out := make([]Event, n)
	for i := range events {
		if hasKey(events[i].Class) {
			b := bucket(events[i].Hash)
			out[at[b]] = events[i]
			at[b]++
		}
	}
	for i := range len(ends) - 1 {
		slices.SortFunc(out[ends[i]:ends[i+1]], compare)
	}
	return out
}

func hasKey(c layout.Class) bool { return c == layout.Row || c == layout.Delete }

func bucket(h keyrun.Hash) int { return int(binary.BigEndian.Uint16(h[:2]) >> (16 - bucketBits)) }

func compare(a, b Event) int {
	if c := a.Hash.Compare(b.Hash); c != 0 {
		return c
	}
	return cmp.Compare(a.Offset, b.Offset)
}
