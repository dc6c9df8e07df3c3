package keyrun

import (
	"container/heap"
	"fmt"
	"io"
	"iter"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Merge writes one run that says of each key what all the given runs say: its lowest lowest and its highest
// highest offset. The new run's range reaches from the lowest start to the highest end; to make sense in a Set
// the ranges must be neighbours. It streams: memory is one block per run.
func Merge(out io.Writer, runs ...*Run) (Info, error) {
	if len(runs) == 0 {
		return Info{}, fmt.Errorf("merge no runs: %w", fault.ErrInvalid)
	}
	rng, expected := runs[0].Range(), int64(0)
	for _, r := range runs {
		rng = kafkapos.Range{Start: min(rng.Start, r.Range().Start), End: max(rng.End, r.Range().End)}
		expected += r.Entries()
	}
	w, err := NewWriter(out, rng, expected)
	if err != nil {
		return Info{}, err
	}
	var h cursors
	defer h.stop()
	for _, r := range runs {
		c := &cursor{}
		c.next, c.stop = iter.Pull2(r.All())
		if err := h.add(c); err != nil {
			return Info{}, err
		}
	}
	if err := mergeInto(w, &h); err != nil {
		return Info{}, err
	}
	return w.Close()
}

func mergeInto(w *Writer, h *cursors) error {
	for h.Len() > 0 {
		e := (*h)[0].entry
		for h.Len() > 0 && (*h)[0].entry.Hash == e.Hash {
			e.Lowest = min(e.Lowest, (*h)[0].entry.Lowest)
			e.Highest = max(e.Highest, (*h)[0].entry.Highest)
			if err := h.advance(); err != nil {
				return err
			}
		}
		if err := w.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// cursor is a run being merged, at one of its entries.
type cursor struct {
	entry Entry
	next  func() (Entry, error, bool)
	stop  func()
}

// cursors is a heap by hash.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].entry.Hash.Compare(h[j].entry.Hash) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// add takes a cursor in, at its first entry.
func (h *cursors) add(c *cursor) error {
	e, err, ok := c.next()
	if err != nil || !ok {
		c.stop()
		return err
	}
	c.entry = e
	heap.Push(h, c)
	return nil
}

// advance moves the first cursor to its next entry, or out.
func (h *cursors) advance() error {
	c := (*h)[0]
	e, err, ok := c.next()
	if err != nil || !ok {
		heap.Pop(h).(*cursor).stop()
		return err
	}
	c.entry = e
	heap.Fix(h, 0)
	return nil
}

func (h cursors) stop() {
	for _, c := range h {
		c.stop()
	}
}
