package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/rowindex"
)

// indexing is what a pass has to do with the index.
type indexing struct {
	// sets are the numbers in the index of the plan's sets.
	sets []uint64
	// prints are the fingerprints of the pass's keys, by set of the plan.
	prints [][]uint64
	// rows are what the index found, by data file.
	rows map[string]*roaring.Bitmap

	mu      sync.Mutex
	writers []*rowindex.Writer // that are not in use
	all     []*rowindex.Writer
}

// indexedSet is a set whose rows go into the index.
type indexedSet struct {
	number  uint64
	columns []int // among those that are read
}

// openIndex finds out under which numbers the index has the sets of the plan. The text of a set names everything that
// its keys' bytes depend on.
func (s *scanner) openIndex() error {
	x := s.d.cfg.Index
	if x == nil {
		return nil
	}
	for _, set := range s.p.keys.sets {
		var parts []string
		for _, at := range set.columns {
			f := s.p.keys.fields[at]
			family, err := datafile.Family(f.Type)
			if err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
			parts = append(parts, fmt.Sprintf("%d:%s", f.ID, family))
		}
		n, err := x.Set(strings.Join(parts, ","))
		if err != nil {
			return err
		}
		s.index.sets = append(s.index.sets, n)
	}
	s.index.prints = make([][]uint64, len(s.index.sets))
	s.index.rows = map[string]*roaring.Bitmap{}
	return nil
}

// fingerprint appends that of a key.
func (s *scanner) fingerprint(to []uint64, key []byte) []uint64 {
	if s.d.cfg.Index == nil {
		return to
	}
	return append(to, s.d.cfg.Index.Fingerprint(key))
}

// keep keeps fingerprints of a set. The caller holds the lock.
func (s *scanner) keep(set int, prints []uint64) {
	if s.d.cfg.Index != nil {
		s.index.prints[set] = append(s.index.prints[set], prints...)
	}
}

// lookup finds the rows of the pass's keys in the data files that the index has.
func (s *scanner) lookup(ctx context.Context, todo []*target) error {
	x := s.d.cfg.Index
	if x == nil {
		return nil
	}
	want := make(map[string]bool, len(todo))
	for _, t := range todo {
		want[t.path] = true
	}
	for i, prints := range s.index.prints {
		slices.Sort(prints)
		err := x.Lookup(ctx, s.index.sets[i], prints, func(path string, ordinal uint32) {
			if !want[path] {
				return
			}
			set := s.index.rows[path]
			if set == nil {
				set = roaring.New()
				s.index.rows[path] = set
			}
			set.Add(ordinal)
		})
		if err != nil {
			return err
		}
		s.index.prints[i] = nil
	}
	return nil
}

// useIndex changes a job to what the index leaves to do; false = nothing. A data file that the index does not have is
// read whole, for it.
func (s *scanner) useIndex(job *fileJob) (bool, error) {
	x := s.d.cfg.Index
	if x == nil {
		return true, nil
	}
	var numbers []uint64
	for _, a := range job.apply {
		n := s.index.sets[a.set]
		if !x.Has(job.t.path, n) && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
			job.sets = append(job.sets, indexedSet{n, a.columns})
		}
	}
	if len(numbers) == 0 {
		rows := s.index.rows[job.t.path]
		if rows == nil {
			return false, nil
		}
		for it := rows.Iterator(); it.HasNext(); {
			job.options.Rows = append(job.options.Rows, int64(it.Next()))
		}
		return true, nil
	}
	job.options.Skip = nil
	job.writer = s.writer()
	return true, job.writer.Begin(job.t.path, numbers)
}

// writer answers a writer that no other goroutine uses.
func (s *scanner) writer() *rowindex.Writer {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	if n := len(s.index.writers); n > 0 {
		w := s.index.writers[n-1]
		s.index.writers = s.index.writers[:n-1]
		return w
	}
	const rowBytes = 32
	w := s.d.cfg.Index.NewWriter(int(max(1000, s.d.cfg.Memory/8/rowBytes/int64(s.d.cfg.Workers))))
	s.index.all = append(s.index.all, w)
	return w
}

// indexed ends the indexing of a data file.
func (s *scanner) indexed(job *fileJob, err error) error {
	w := job.writer
	if w == nil {
		return err
	}
	if err != nil {
		w.Abandon()
		return err
	}
	s.d.indexed.Add(1)
	err = w.End(job.t.records)
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	s.index.writers = append(s.index.writers, w)
	return err
}

// endIndexing makes what was indexed durable.
func (s *scanner) endIndexing() error {
	var errs []error
	for _, w := range s.index.all {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// forget takes data files out of the index that the head does not have.
func (d *drainer) forget(ctx context.Context, h *head) error {
	x := d.cfg.Index
	if x == nil || x.Files() == 0 {
		return nil
	}
	live := map[string]bool{}
	for e, err := range h.scan.Entries(ctx, icebergscan.DataManifest, icebergscan.Want{}) {
		if err != nil {
			return fmt.Errorf("read data manifests: %w", err)
		}
		if x.Known(string(e.Path)) {
			live[string(e.Path)] = true
		}
	}
	n, err := x.Retain(ctx, func(path string) bool { return live[path] })
	d.report.DataFilesForgotten += int64(n)
	return err
}
