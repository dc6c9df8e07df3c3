package keyrun

import (
	"sync"
	"sync/atomic"
)

// Filters bounds the memory that the filters of open runs take together. A run reads its filters once it has read
// enough blocks in vain; while they find no room it goes on without. Safe for concurrent use.
type Filters struct {
	limit int64 // bytes

	mu   sync.Mutex
	used int64
	held map[*Run]struct{}
	tick int64
}

// NewFilters bounds them to so many bytes. The filters of a run take about 0.7 bytes per key.
func NewFilters(limit int64) *Filters { return &Filters{limit: limit, held: map[*Run]struct{}{}} }

// Used is the bytes that they take now.
func (f *Filters) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// use notes that the filters of a run are asked for.
func (f *Filters) use(r *Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tick++
	r.filter.before, r.filter.last = r.filter.last, f.tick
}

// admit sets memory aside for the filters of a run, if need be that of runs that were last asked for before this one
// was for the last time but one: runs that are asked in turn do not take it from each other.
func (f *Filters) admit(r *Run) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := r.filterBytes()
	if r.filter.closed || size > f.limit {
		return false
	}
	for f.used+size > f.limit {
		var oldest *Run
		for o := range f.held {
			if oldest == nil || o.filter.last < oldest.filter.last {
				oldest = o
			}
		}
		if oldest.filter.last >= r.filter.before {
			return false
		}
		f.remove(oldest)
	}
	f.held[r] = struct{}{}
	f.used += size
	return true
}

// keep puts the filters into the memory that was set aside, unless that was taken meanwhile.
func (f *Filters) keep(r *Run, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.held[r]; ok {
		r.filter.bytes.Store(&b)
	}
}

// drop forgets the filters of a run.
func (f *Filters) drop(r *Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(r)
}

// remove is drop where the lock is held.
func (f *Filters) remove(r *Run) {
	if _, ok := f.held[r]; ok {
		delete(f.held, r)
		f.used -= r.filterBytes()
		r.filter.bytes.Store(nil)
	}
}

// close is drop for good.
func (f *Filters) close(r *Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(r)
	r.filter.closed = true
}

// vainPerLoad: filters are read when there has been one read in vain for each so many blocks of the run. They take
// about as long to read as those reads took.
const vainPerLoad = 32

// filter is what a run knows of its filters.
type filter struct {
	bound *Filters               // nil: none are kept
	bytes atomic.Pointer[[]byte] // nil: not in memory
	vain  atomic.Int64           // blocks that were read in vain without them
	mu    sync.Mutex             // held while they are read
	// last and before are when they were asked for, for the last time and the last but one; closed says that it was
	// the very last one. The bound's lock guards them.
	last, before int64
	closed       bool
}

// filterBytes is what the filters of all blocks take.
func (r *Run) filterBytes() int64 { return int64(r.shape.blocks) * filterSize }

// filters answers the filters of all blocks, or nil when they are not in memory.
func (r *Run) filters() ([]byte, error) {
	f := &r.filter
	if f.bound == nil {
		return nil, nil
	}
	f.bound.use(r)
	if b := f.bytes.Load(); b != nil {
		return *b, nil
	}
	if f.vain.Load()*vainPerLoad < int64(r.shape.blocks) || !f.mu.TryLock() {
		return nil, nil
	}
	defer f.mu.Unlock()
	f.vain.Store(0)
	if !f.bound.admit(r) {
		return nil, nil
	}
	b, err := r.readFilters()
	if err != nil {
		f.bound.drop(r)
		return nil, err
	}
	f.bound.keep(r, b)
	return b, nil
}

// readFilters reads and verifies the filters of all blocks.
func (r *Run) readFilters() ([]byte, error) {
	b := make([]byte, r.filterBytes())
	for g := range r.shape.groups() {
		from, to, at := r.shape.group(g)
		some := b[from*filterSize : to*filterSize]
		if err := readAt(r.src, some, at); err != nil {
			return nil, err
		}
		if err := r.verifyFilters(g, some); err != nil {
			return nil, err
		}
	}
	return b, nil
}
