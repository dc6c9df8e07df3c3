package keyrun

import (
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
	defer func() { h.stop() }()
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
	for len(*h) > 0 {
		e := (*h)[0].entry
		for len(*h) > 0 && (*h)[0].entry.Hash == e.Hash {
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

// cursors is a heap by hash: the first has the lowest.
type cursors []*cursor

// add takes a cursor in, at its first entry.
func (h *cursors) add(c *cursor) error {
	e, err, ok := c.next()
	if err != nil || !ok {
		c.stop()
		return err
	}
	c.entry = e
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.swap(i, (i-1)/2)
	}
	return nil
}

// advance moves the first cursor to its next entry, or out.
func (h *cursors) advance() error {
	c := (*h)[0]
	e, err, ok := c.next()
	if err != nil {
		return err
	}
	c.entry = e
	if !ok {
		c.stop()
		h.swap(0, len(*h)-1)
		*h = (*h)[:len(*h)-1]
	}
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(*h); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return nil
		}
		h.swap(i, least)
		i = least
	}
}

func (h *cursors) less(i, j int) bool { return (*h)[i].entry.Hash.Compare((*h)[j].entry.Hash) < 0 }

func (h *cursors) swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

func (h cursors) stop() {
	for _, c := range h {
		c.stop()
	}
}
