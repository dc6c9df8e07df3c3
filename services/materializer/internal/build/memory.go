package build

import (
	"fmt"
	"sync/atomic"

	"github.com/frazil-io/frazil/libs/column"
	"github.com/frazil-io/frazil/libs/fault"
)

// Memory is what all row groups that are being made may take together, and those that are served from memory
// because the disk did not take them. Safe for concurrent use.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory bounds to limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Used is what is held now, bytes.
func (m *Memory) Used() int64 { return m.used.Load() }

// Hold is a share that one owner grows and gives back whole. Used by one goroutine at a time.
type Hold struct {
	m    *Memory
	held int64
}

// Hold begins an empty share.
func (m *Memory) Hold() *Hold { return &Hold{m: m} }

// Grow makes the share at least n bytes. fault.ErrInvalid: no configuration smaller than n can do this work;
// fault.ErrUnavailable: others hold the rest now.
func (h *Hold) Grow(n int64) error {
	if n <= h.held {
		return nil
	}
	if n > h.m.limit {
		return fmt.Errorf("one row group needs more than the %d bytes of memory.max_bytes: %w", h.m.limit, fault.ErrInvalid)
	}
	if h.m.used.Add(n-h.held) > h.m.limit {
		h.m.used.Add(h.held - n)
		return fmt.Errorf("memory.max_bytes is used up by other requests: %w", fault.ErrUnavailable)
	}
	h.held = n
	return nil
}

// Release gives the share back.
func (h *Hold) Release() {
	h.m.used.Add(-h.held)
	h.held = 0
}

// batchBytes is about what the rows of a batch take.
func batchBytes(b *column.Batch) int64 {
	total := 0
	for _, l := range b.Leaves {
		total += len(l.Def) + len(l.Rep) + len(l.Bools) + 4*len(l.Int32s) + 8*len(l.Int64s) + 4*len(l.Float32s) +
			8*len(l.Float64s) + len(l.Data) + 4*len(l.Ends)
	}
	return int64(total)
}
