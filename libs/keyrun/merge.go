package keyrun

import (
	"fmt"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Merge writes one run that says of each key what all the given runs say: its lowest lowest and its highest
// highest offset. The new run's range reaches from the lowest start to the highest end; to make sense in a Set
// the ranges must be neighbours. It streams: memory is a group of 64 blocks per run, and what the writer has.
func Merge(out io.Writer, runs ...*Run) (Info, error) {
	if len(runs) == 0 {
		return Info{}, fmt.Errorf("merge no runs: %w", fault.ErrInvalid)
	}
	rng := runs[0].Range()
	for _, r := range runs {
		rng = kafkapos.Range{Start: min(rng.Start, r.Range().Start), End: max(rng.End, r.Range().End)}
	}
	w, err := NewWriter(out, rng)
	if err != nil {
		return Info{}, err
	}
	var h cursors
	for _, r := range runs {
		if err := h.add(&cursor{run: r}); err != nil {
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

// cursors is a heap by hash: the first has the lowest.
type cursors []*cursor

// add takes a cursor in, at its first entry.
func (h *cursors) add(c *cursor) error {
	if ok, err := c.next(); err != nil || !ok {
		return err
	}
	*h = append(*h, c)
	for i := len(*h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		h.swap(i, (i-1)/2)
	}
	return nil
}

// advance moves the first cursor to its next entry, or out.
func (h *cursors) advance() error {
	ok, err := (*h)[0].next()
	if err != nil {
		return err
	}
	if !ok {
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
