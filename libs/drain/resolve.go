package drain

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/probe"
	"github.com/frazil-io/frazil/libs/rowindex"
)

type drainer struct {
	cat    Catalog
	cfg    Config
	report *Report

	batch, batches int
	keys           keyTable
	read           atomic.Int64 // bytes of data and delete files
	rows           atomic.Int64
	files          atomic.Int64 // data files opened, repeated passes counted
	indexed        atomic.Int64
}

// keyCapacity answers how many delete keys are held at once. With an index their fingerprints are held, too.
func (d *drainer) keyCapacity() int64 {
	if d.cfg.Index != nil {
		return capacityOf(d.cfg.Memory / 4)
	}
	return capacityOf(d.cfg.Memory / 2)
}

// part is some rows of a delete file: all, unless the file alone is too large to be held.
type part struct {
	of      *equality
	from, n int64
}

// passesOf divides a batch into runs of at most capacity keys.
func passesOf(batch []*equality, capacity int64) [][]part {
	var out [][]part
	room := int64(0)
	for _, e := range batch {
		for from := int64(0); from < e.records; {
			if room == 0 {
				out, room = append(out, nil), capacity
			}
			n := min(room, e.records-from)
			out[len(out)-1] = append(out[len(out)-1], part{e, from, n})
			from, room = from+n, room-n
		}
	}
	return out
}

// resolve finds the positions of the batch in the targets that are not resolved yet.
func (d *drainer) resolve(ctx context.Context, p *plan, found *positions) error {
	var todo []*target
	rows := int64(0)
	for _, t := range p.targets {
		if !found.resolved(t.path, t.seq) {
			todo = append(todo, t)
			rows += t.records
		}
	}
	if len(todo) == 0 {
		return nil
	}
	passes := passesOf(p.batch, d.keyCapacity())
	scan := newMeter(d, "scan", rows*int64(len(passes)))
	for _, parts := range passes {
		s, err := d.loadKeys(ctx, p, parts)
		if err != nil {
			return err
		}
		if err := s.lookup(ctx, todo); err != nil {
			return err
		}
		err = parallel(ctx, d.cfg.Workers, todo, func(ctx context.Context, t *target) error {
			defer scan.add(t.records)
			return s.scan(ctx, t, found)
		})
		if err = errors.Join(err, s.endIndexing()); err != nil {
			return err
		}
	}
	for _, t := range todo {
		found.resolve(t.path, t.seq)
	}
	return nil
}

// parallel calls work for every item in several goroutines. The first error ends the others.
func parallel[T any](ctx context.Context, workers int, items []T, work func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(items)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(items) || ctx.Err() != nil {
					return
				}
				if err := work(ctx, items[i]); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// meter tells the progress of one stage.
type meter struct {
	mu          sync.Mutex
	d           *drainer
	stage       string
	done, total int64
}

func newMeter(d *drainer, stage string, total int64) *meter {
	m := &meter{d: d, stage: stage, total: total}
	m.add(0)
	return m
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.d.cfg.Progress(Progress{Batch: m.d.batch, Batches: m.d.batches, Stage: m.stage, Done: m.done, Total: m.total})
}

// combo is the deletes of a pass that compare the same columns in the same group.
type combo struct {
	set     int
	prefix  []byte
	deletes []*equality
}

// scanner finds the rows of one pass. Safe for concurrent use once the keys are loaded.
type scanner struct {
	d      *drainer
	p      *plan
	combos map[string][]*combo // by group
	index  indexing
	mu     sync.Mutex // of the key table and the fingerprints while they are filled
}

// loadKeys reads the keys of a pass into the key table.
func (d *drainer) loadKeys(ctx context.Context, p *plan, parts []part) (*scanner, error) {
	total := int64(0)
	s := &scanner{d: d, p: p, combos: map[string][]*combo{}}
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	of := make(map[*equality]*combo, len(parts))
	for _, q := range parts {
		total += q.n
		of[q.of] = s.combo(q.of)
	}
	if d.keys.k0 == 0 && d.keys.k1 == 0 {
		var seed [16]byte
		if _, err := rand.Read(seed[:]); err != nil {
			return nil, fmt.Errorf("random number: %w", err)
		}
		d.keys.k0, d.keys.k1 = binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])
	}
	d.keys.reset(total)
	m := newMeter(d, "keys", total)
	err := parallel(ctx, d.cfg.Workers, parts, func(ctx context.Context, q part) error {
		defer m.add(q.n)
		return s.load(ctx, q, of[q.of])
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// combo answers where a delete belongs, and puts it there.
func (s *scanner) combo(e *equality) *combo {
	set := s.p.keys.set(e.ids)
	for _, c := range s.combos[e.group] {
		if c.set == set {
			c.deletes = append(c.deletes, e)
			return c
		}
	}
	n := 0
	for _, have := range s.combos {
		n += len(have)
	}
	c := &combo{set: set, prefix: binary.AppendUvarint(nil, uint64(n)), deletes: []*equality{e}}
	s.combos[e.group] = append(s.combos[e.group], c)
	return c
}

func (s *scanner) load(ctx context.Context, q part, c *combo) error {
	set := s.p.keys.sets[c.set]
	columns := make([]datafile.Column, len(set.columns))
	order := make([]int, len(set.columns))
	for i, at := range set.columns {
		columns[i].Field, order[i] = s.p.keys.fields[at], i
	}
	rows := int64(0)
	var key []byte
	hashes := make([][2]uint64, 0, 1024)
	var prints []uint64
	err := s.d.readFile(ctx, s.p.head.table.Store, q.of.path, q.of.format, func(src datafile.Source) error {
		for b, err := range datafile.Read(ctx, src, columns, datafile.Options{Names: s.p.keys.names}) {
			if err != nil {
				return err
			}
			rows = b.First + int64(b.Rows)
			hashes = hashes[:0]
			for i := range b.Rows {
				if at := b.First + int64(i); at < q.from || at >= q.from+q.n {
					continue
				}
				key = b.AppendKey(append(key[:0], c.prefix...), i, order)
				hashes = append(hashes, s.d.keys.hash(key))
				prints = s.fingerprint(prints, key[len(c.prefix):])
			}
			s.mu.Lock()
			for _, h := range hashes {
				s.d.keys.put(h, q.of.seq)
			}
			s.keep(c.set, prints)
			s.mu.Unlock()
			prints = prints[:0]
			if rows >= q.from+q.n && q.from+q.n < q.of.records {
				return nil // the rest is of another pass
			}
		}
		return nil
	})
	if err == nil && (rows > q.of.records || q.from+q.n == q.of.records && rows < q.of.records) {
		err = fmt.Errorf("%s has %d rows or more and its manifest says %d: %w", q.of.path, rows, q.of.records, fault.ErrCorrupt)
	}
	return err
}

// readFile opens a file for a read and counts its bytes.
func (d *drainer) readFile(ctx context.Context, store Store, path, format string, read func(datafile.Source) error) (err error) {
	f, err := store.File(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", path, err)
	}
	return read(datafile.Source{Path: path, Format: format, Reader: countingAt{f, &d.read}, Size: size})
}

type countingAt struct {
	File
	n *atomic.Int64
}

// ReadAt implements io.ReaderAt.
func (c countingAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.n.Add(int64(n))
	return n, err //nolint:wrapcheck // it is the file's, io.EOF as it is
}

// applicable is a combo with those of its deletes that are newer than a data file.
type applicable struct {
	*combo
	columns []int // of the set, in the columns that are read
	fields  []int // of the set, in keyColumns.fields
	newer   []*equality
}

// scan finds the rows of one data file. A file that no delete of the pass applies to is not opened.
func (s *scanner) scan(ctx context.Context, t *target, found *positions) error {
	all, err := s.p.keys.ofFile(t)
	if err != nil {
		return err
	}
	at := make([]int, len(all)) // place of each key column among those that are read, plus one
	var columns []datafile.Column
	var apply []applicable
	groups := []string{t.group, ""}
	for _, group := range groups {
		for _, c := range s.combos[group] {
			a := applicable{combo: c, fields: s.p.keys.sets[c.set].columns}
			for _, e := range c.deletes {
				if e.seq > t.seq {
					a.newer = append(a.newer, e)
				}
			}
			if len(a.newer) == 0 {
				continue
			}
			for _, f := range a.fields {
				if at[f] == 0 {
					columns = append(columns, all[f])
					at[f] = len(columns)
				}
				a.columns = append(a.columns, at[f]-1)
			}
			apply = append(apply, a)
		}
	}
	if len(apply) == 0 {
		return nil
	}
	job := fileJob{t: t, columns: columns, apply: apply, hits: roaring.New()}
	job.options = datafile.Options{Names: s.p.keys.names, Skip: func(g datafile.Group) bool { return !s.mayTouch(g, apply) }}
	if some, err := s.useIndex(&job); err != nil || !some {
		return err
	}
	s.d.files.Add(1)
	err = s.d.readFile(ctx, s.p.head.table.Store, t.path, t.format, func(src datafile.Source) error {
		return s.rows(ctx, src, &job)
	})
	if err := s.indexed(&job, err); err != nil {
		return err
	}
	return found.add(t.path, job.hits)
}

// fileJob is the reading of one data file.
type fileJob struct {
	t       *target
	columns []datafile.Column
	apply   []applicable
	options datafile.Options
	hits    *roaring.Bitmap
	// writer takes the rows for the index under these sets; nil = they are not taken.
	writer *rowindex.Writer
	sets   []indexedSet
}

// candidates are the rows of a batch that may be hit: all, or those that the index named.
func (j *fileJob) candidates(b *datafile.Batch) iter.Seq[int] {
	return func(yield func(int) bool) {
		if j.options.Rows == nil {
			for i := range b.Rows {
				if !yield(i) {
					return
				}
			}
			return
		}
		at, _ := slices.BinarySearch(j.options.Rows, b.First)
		for _, row := range j.options.Rows[at:] {
			if i := row - b.First; i >= int64(b.Rows) || !yield(int(i)) {
				return
			}
		}
	}
}

func (s *scanner) rows(ctx context.Context, src datafile.Source, job *fileJob) error {
	var key []byte
	for b, err := range datafile.Read(ctx, src, job.columns, job.options) {
		if err != nil {
			return err
		}
		s.d.rows.Add(int64(b.Rows))
		if b.First+int64(b.Rows) > job.t.records {
			return fmt.Errorf("%s has more rows than the %d of its manifest: %w", job.t.path, job.t.records, fault.ErrCorrupt)
		}
		for i := range job.candidates(b) {
			for j := range job.apply {
				a := &job.apply[j]
				key = b.AppendKey(append(key[:0], a.prefix...), i, a.columns)
				if s.d.keys.get(s.d.keys.hash(key)) > job.t.seq {
					job.hits.Add(uint32(b.First) + uint32(i))
					break
				}
			}
			for _, set := range job.sets {
				key = b.AppendKey(key[:0], i, set.columns)
				if err := job.writer.Add(set.number, s.d.cfg.Index.Fingerprint(key), uint32(b.First)+uint32(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// manyDeletes is how many deletes a row group is held against by its limits. Where more apply, one of them is as good as
// certain to touch it.
const manyDeletes = 64

// mayTouch goes by the limits of a row group.
func (s *scanner) mayTouch(g datafile.Group, apply []applicable) bool {
	for i := range apply {
		a := &apply[i]
		if len(a.newer) > manyDeletes {
			return true
		}
		keys := s.p.keys.sets[a.set]
		fields := slices.Clone(s.p.keys.fields[:0])
		data := slices.Clone(g.Stats[:0])
		for j, f := range keys.columns {
			fields, data = append(fields, s.p.keys.fields[f]), append(data, g.Stats[a.columns[j]])
		}
		for _, e := range a.newer {
			if probe.MayTouch(fields, data, e.stats) {
				return true
			}
		}
	}
	return false
}
