// Package rowindex is a durable index from a key's fingerprint to the rows that have the key: (data file, ordinal). One
// Pebble store for each branch of a table, of which one process holds the directory at a time.
//
// It is a hint that leaves nothing out: of a data file that is in it, every row is found by the fingerprint of its key,
// and a row that is found may have another key, since a fingerprint is 64 bits of a keyed hash. Whoever asks holds
// what is found against the key columns themselves. Data files never change, so nothing in it ever becomes wrong; files
// that a table has no more are forgotten, and what they leave behind is swept away once it is the larger part.
//
// On disk: "meta" is version, table, hash key. 'f' path: the number of a data file, and the key sets that are indexed
// of it. 's' text: the number of a key set. "next": the number that the next file gets, raised before anything is
// written under it, so that what a crash leaves half done has a number that no file has. 'k' set, fingerprint, file,
// ordinal: a row; numbers as uvarints, the fingerprint as 8 bytes. The layout is described in docs/FORMAT.md.
package rowindex

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dchest/siphash"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/pebblelog"
)

// version is raised with every change of the layout: an index of another version is made anew.
const version = 1

// Spaces of keys, their first byte.
const (
	spaceFiles = 'f'
	spaceSets  = 's'
	spaceRows  = 'k'
)

// Index is an open index. Safe for concurrent use.
type Index struct {
	db     *pebble.DB
	lock   *pebble.Lock
	dir    string
	k0, k1 uint64
	tables atomic.Int64 // in the names of tables that are being written

	mu      sync.Mutex
	files   map[string]*file
	byID    map[uint64]*file
	sets    map[string]uint64
	next    uint64
	garbage int64 // rows of files that were forgotten, about
}

type file struct {
	id   uint64
	path string
	rows int64
	sets []uint64 // ascending
}

// Config says what is indexed.
type Config struct {
	// Dir is made if it is not there. Table is the table's UUID and Branch the branch: each pair has an index of its
	// own below Dir.
	Dir, Table, Branch string
	// Cache is the memory for blocks, bytes.
	Cache int64
	Log   *slog.Logger
}

// Open opens or makes an index. One that is damaged, or of another version, is made anew: the caller need only read the
// data files again. Errors: fault.ErrUnavailable if another process holds it, else those of the file system.
func Open(cfg Config) (*Index, error) {
	dir := filepath.Join(cfg.Dir, cfg.Table, fmt.Sprintf("%x", cfg.Branch))
	x, err := open(dir, cfg)
	if err == nil || errors.Is(err, fault.ErrUnavailable) {
		return x, err
	}
	cfg.Log.Warn("the index is made anew", "dir", dir, "err", err)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove index: %w", err)
	}
	return open(dir, cfg)
}

func open(dir string, cfg Config) (*Index, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make index: %w", err)
	}
	cache := pebble.NewCache(max(cfg.Cache, 8<<20))
	defer cache.Unref()
	lock, err := pebble.LockDirectory(dir, pebbleFS())
	if err != nil {
		return nil, fmt.Errorf("lock index %s, which another process holds: %w: %w", dir, fault.ErrUnavailable, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, tablePattern))
	for _, path := range left { // of a process that ended
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("clear index: %w", err), lock.Close())
	}
	opts := &pebble.Options{Cache: cache, Logger: pebblelog.New(cfg.Log, "row index"), FormatMajorVersion: formatVersion, MemTableSize: 16 << 20, Lock: lock}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open index: %w", err), lock.Close())
	}
	x := &Index{db: db, lock: lock, dir: dir, files: map[string]*file{}, byID: map[uint64]*file{}, sets: map[string]uint64{}}
	if err := x.load(cfg.Table); err != nil {
		return nil, errors.Join(err, db.Close(), lock.Close())
	}
	return x, nil
}

// Close gives the directory back. No call may be under way or follow.
func (x *Index) Close() error {
	if err := errors.Join(x.db.Close(), x.lock.Close()); err != nil {
		return fmt.Errorf("close index: %w", err)
	}
	return nil
}

// load reads everything but rows.
func (x *Index) load(table string) error {
	meta, err := x.get([]byte("meta"))
	if err != nil {
		return err
	}
	if meta == nil {
		if meta, err = x.create(table); err != nil {
			return err
		}
	}
	if len(meta) < 17 || meta[0] != version || string(meta[17:]) != table {
		return fmt.Errorf("index of another version or table: %w", fault.ErrCorrupt)
	}
	x.k0, x.k1 = binary.BigEndian.Uint64(meta[1:]), binary.BigEndian.Uint64(meta[9:])
	next, err := x.get([]byte("next"))
	if err != nil {
		return err
	}
	x.next, _ = binary.Uvarint(next)
	if err := x.each(spaceSets, func(key, value []byte) error {
		n, _ := binary.Uvarint(value)
		x.sets[string(key)] = n
		return nil
	}); err != nil {
		return err
	}
	return x.each(spaceFiles, func(key, value []byte) error {
		f, err := parseFile(string(key), value)
		if err != nil {
			return err
		}
		x.files[f.path], x.byID[f.id] = f, f
		return nil
	})
}

func (x *Index) create(table string) ([]byte, error) {
	meta := append(make([]byte, 17), table...)
	meta[0] = version
	if _, err := rand.Read(meta[1:17]); err != nil {
		return nil, fmt.Errorf("random number: %w", err)
	}
	if err := x.db.Set([]byte("meta"), meta, pebble.Sync); err != nil {
		return nil, fmt.Errorf("write index: %w", err)
	}
	return meta, nil
}

func (x *Index) get(key []byte) ([]byte, error) {
	v, closer, err := x.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	out := append([]byte{}, v...)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return out, nil
}

// each calls yield for every pair of a space; the key comes without the space.
func (x *Index) each(space byte, yield func(key, value []byte) error) (err error) {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: []byte{space}, UpperBound: []byte{space + 1}})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if err := yield(it.Key()[1:], it.Value()); err != nil {
			return err
		}
	}
	return it.Error()
}

// A file's value is its number, its rows, how many sets there are, and the sets; uvarints.
func (f *file) encode() []byte {
	b := binary.AppendUvarint(nil, f.id)
	b = binary.AppendUvarint(b, uint64(f.rows))
	b = binary.AppendUvarint(b, uint64(len(f.sets)))
	for _, s := range f.sets {
		b = binary.AppendUvarint(b, s)
	}
	return b
}

func parseFile(path string, b []byte) (*file, error) {
	var fields []uint64
	for len(b) > 0 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("index of %s: %w", path, fault.ErrCorrupt)
		}
		fields, b = append(fields, v), b[n:]
	}
	if len(fields) < 3 || uint64(len(fields)-3) != fields[2] {
		return nil, fmt.Errorf("index of %s: %w", path, fault.ErrCorrupt)
	}
	return &file{id: fields[0], path: path, rows: int64(fields[1]), sets: fields[3:]}, nil
}

// Set answers the number of a set of key columns, which text describes: the same text must mean the same bytes of the
// same keys for ever.
func (x *Index) Set(text string) (uint64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n, ok := x.sets[text]; ok {
		return n, nil
	}
	n := uint64(len(x.sets))
	if err := x.db.Set(append([]byte{spaceSets}, text...), binary.AppendUvarint(nil, n), pebble.Sync); err != nil {
		return 0, fmt.Errorf("write index: %w", err)
	}
	x.sets[text] = n
	return n, nil
}

// Fingerprint answers that of a key.
func (x *Index) Fingerprint(key []byte) uint64 { return siphash.Hash(x.k0, x.k1, key) }

// Has reports whether all rows of a data file are indexed for a set.
func (x *Index) Has(path string, set uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.files[path]
	return f != nil && contains(f.sets, set)
}

func contains(sets []uint64, set uint64) bool {
	for _, s := range sets {
		if s == set {
			return true
		}
	}
	return false
}

// Known reports whether a data file is indexed for any set.
func (x *Index) Known(path string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.files[path] != nil
}

// Files answers how many data files are indexed.
func (x *Index) Files() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.files)
}

// DiskBytes answers how large the tables of the index are on disk. Those that a compaction has replaced a moment ago,
// and the log of up to some MB, are not counted.
func (x *Index) DiskBytes() int64 { return x.db.Metrics().Total().TablesSize }

// Retain forgets every data file that live does not have, and sweeps when what is forgotten is the larger part.
func (x *Index) Retain(ctx context.Context, live func(path string) bool) (forgotten int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	kept := int64(0)
	var gone []*file
	for path, f := range x.files {
		if live(path) {
			kept += f.rows * int64(len(f.sets))
			continue
		}
		gone = append(gone, f)
		if err := b.Delete(append([]byte{spaceFiles}, path...), nil); err != nil {
			return 0, fmt.Errorf("write index: %w", err)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	if err := x.db.Apply(b, pebble.Sync); err != nil {
		return 0, fmt.Errorf("write index: %w", err)
	}
	for _, f := range gone {
		x.garbage += f.rows * int64(len(f.sets))
		delete(x.files, f.path)
		delete(x.byID, f.id)
	}
	if x.garbage > kept {
		return len(gone), x.sweep(ctx)
	}
	return len(gone), nil
}

// sweep removes the rows of files that are not known. The caller holds the lock.
func (x *Index) sweep(ctx context.Context) error {
	b := x.db.NewBatch()
	defer func() { _ = b.Close() }() // it is empty or was applied
	flush := func() error {
		if err := x.db.Apply(b, pebble.NoSync); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
		b.Reset()
		return context.Cause(ctx)
	}
	err := x.each(spaceRows, func(key, _ []byte) error {
		r, ok := parseRow(key)
		if ok && x.byID[r.file] != nil {
			return nil
		}
		if err := b.Delete(append([]byte{spaceRows}, key...), nil); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
		if b.Count() >= 100_000 {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	x.garbage = 0
	if err := x.db.Compact(ctx, []byte{spaceRows}, []byte{spaceRows + 1}, true); err != nil {
		return fmt.Errorf("compact index: %w", err)
	}
	return nil
}

// Compact brings the index into its smallest form.
func (x *Index) Compact(ctx context.Context) error {
	if err := x.db.Compact(ctx, []byte{0}, []byte{255}, true); err != nil {
		return fmt.Errorf("compact index: %w", err)
	}
	return nil
}
