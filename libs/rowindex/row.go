package rowindex

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion of the Pebble store.
const formatVersion = pebble.FormatWALSyncChunks

// tablePattern matches the names of tables that are being written.
const tablePattern = "rows-*.tmp"

func pebbleFS() vfs.FS { return vfs.Default }

// row is one entry: the row of a file that has a key of a set.
type row struct {
	set, fingerprint, file uint64
	ordinal                uint32
}

func compareRows(a, b row) int {
	return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.fingerprint, b.fingerprint), cmp.Compare(a.file, b.file), cmp.Compare(a.ordinal, b.ordinal))
}

// appendRow encodes an entry. The order of the bytes is that of set and fingerprint; below that numbers are written
// with their length first, so that it is theirs, too.
func appendRow(b []byte, r row) []byte {
	b = append(b, spaceRows)
	b = appendNumber(b, r.set)
	b = binary.BigEndian.AppendUint64(b, r.fingerprint)
	b = appendNumber(b, r.file)
	return appendNumber(b, uint64(r.ordinal))
}

// appendNumber writes a number in order: below 240 one byte; else how many bytes follow, and these, big endian.
func appendNumber(b []byte, v uint64) []byte {
	if v < 240 {
		return append(b, byte(v))
	}
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], v)
	n := 8
	for n > 1 && wide[8-n] == 0 {
		n--
	}
	return append(append(b, byte(239+n)), wide[8-n:]...)
}

func number(b []byte) (v uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	if b[0] < 240 {
		return uint64(b[0]), b[1:], true
	}
	n := int(b[0]) - 239
	if n > 8 || len(b) < 1+n {
		return 0, nil, false
	}
	for _, c := range b[1 : 1+n] {
		v = v<<8 | uint64(c)
	}
	return v, b[1+n:], true
}

// parseRow reads a key without its space.
func parseRow(b []byte) (r row, ok bool) {
	if r.set, b, ok = number(b); !ok || len(b) < 8 {
		return r, false
	}
	r.fingerprint, b = binary.BigEndian.Uint64(b), b[8:]
	if r.file, b, ok = number(b); !ok {
		return r, false
	}
	ordinal, rest, ok := number(b)
	r.ordinal = uint32(ordinal)
	return r, ok && len(rest) == 0
}

// chunkRows is how many rows are sorted at once: each chunk becomes a table of the store, 32 bytes a row in memory.
const chunkRows = 1 << 20

// Writer adds data files. Not for concurrent use; several writers may be.
type Writer struct {
	x     *Index
	limit int
	rows  []row
	files []*file // with rows in rows, or whose rows are all written
	open  *file   // its rows are being added
}

// NewWriter begins to add. rows is how many rows are held at once; 0 = a million.
func (x *Index) NewWriter(rows int) *Writer {
	if rows <= 0 {
		rows = chunkRows
	}
	return &Writer{x: x, limit: rows}
}

// Begin begins a data file that is indexed for some sets, beside those that it is indexed for.
func (w *Writer) Begin(path string, sets []uint64) error {
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.files[path]; f != nil {
		w.open = &file{id: f.id, path: path, rows: f.rows, sets: slices.Clone(f.sets)}
	} else {
		if err := x.db.Set([]byte("next"), binary.AppendUvarint(nil, x.next+1), pebble.Sync); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
		w.open = &file{id: x.next, path: path}
		x.next++
	}
	w.open.sets = append(w.open.sets, sets...)
	slices.Sort(w.open.sets)
	w.open.sets = slices.Compact(w.open.sets)
	return nil
}

// Add adds the row of an ordinal of the data file that was begun, under the fingerprint of its key of a set.
func (w *Writer) Add(set, fingerprint uint64, ordinal uint32) error {
	w.rows = append(w.rows, row{set, fingerprint, w.open.id, ordinal})
	if len(w.rows) >= w.limit {
		return w.flush()
	}
	return nil
}

// End says that all rows of the data file were added.
func (w *Writer) End(rows int64) error {
	w.open.rows = rows
	w.files, w.open = append(w.files, w.open), nil
	return nil
}

// Abandon drops the data file that was begun: its rows have a number that no file has, or that of one that is not
// indexed for the set.
func (w *Writer) Abandon() { w.open = nil }

// flush makes the rows that are held durable, and then the data files that have ended: whatever happens later, they are
// not read again.
func (w *Writer) flush() error {
	if err := w.writeRows(); err != nil {
		return err
	}
	return w.writeFiles()
}

func (w *Writer) writeRows() error {
	if len(w.rows) == 0 {
		return nil
	}
	slices.SortFunc(w.rows, compareRows)
	w.rows = slices.Compact(w.rows)
	defer func() { w.rows = w.rows[:0] }()
	if len(w.rows) < 10_000 {
		return w.small()
	}
	path := filepath.Join(w.x.dir, strings.Replace(tablePattern, "*", strconv.FormatInt(w.x.tables.Add(1), 10), 1))
	if err := w.table(path); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if err := w.x.db.Ingest(context.Background(), []string{path}); err != nil { // it cannot be left half way
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

func (w *Writer) small() (err error) {
	b := w.x.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, r := range w.rows {
		if err := b.Set(appendRow(nil, r), nil, nil); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	if err := w.x.db.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

func (w *Writer) table(path string) error {
	f, err := pebbleFS().Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	opts := &pebble.Options{FormatMajorVersion: formatVersion}
	opts.EnsureDefaults()
	t := sstable.NewWriter(objstorageprovider.NewFileWritable(f), opts.MakeWriterOptions(6, formatVersion.MaxTableFormat()))
	var key []byte
	for _, r := range w.rows {
		key = appendRow(key[:0], r)
		if err := t.Set(key, nil); err != nil {
			return errors.Join(fmt.Errorf("write index: %w", err), t.Close())
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// Close writes what is held: after it all data files that ended are indexed. The writer can be used again.
func (w *Writer) Close() error { return w.flush() }

func (w *Writer) writeFiles() (err error) {
	if len(w.files) == 0 {
		return nil
	}
	x := w.x
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, f := range w.files {
		if err := b.Set(append([]byte{spaceFiles}, f.path...), f.encode(), nil); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	if err := x.db.Apply(b, pebble.Sync); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	for _, f := range w.files {
		x.files[f.path], x.byID[f.id] = f, f
	}
	w.files = nil
	return nil
}

// Lookup yields the rows that are indexed under fingerprints of a set, which must ascend. The path is that of the data
// file. Rows of forgotten files are left out.
func (x *Index) Lookup(ctx context.Context, set uint64, ascending []uint64, yield func(path string, ordinal uint32)) (err error) {
	it, err := x.db.NewIter(&pebble.IterOptions{LowerBound: appendNumber([]byte{spaceRows}, set), UpperBound: appendNumber([]byte{spaceRows}, set+1)})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	x.mu.Lock()
	paths := make(map[uint64]string, len(x.byID))
	for id, f := range x.byID {
		if contains(f.sets, set) {
			paths[id] = f.path
		}
	}
	x.mu.Unlock()
	prefix := appendNumber([]byte{spaceRows}, set)
	head := len(prefix)
	var last uint64
	for i, fp := range ascending {
		if i > 0 && fp == last {
			continue
		}
		last = fp
		if i%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		prefix = binary.BigEndian.AppendUint64(prefix[:head], fp)
		for ok := it.SeekGE(prefix); ok; ok = it.Next() {
			r, fine := parseRow(it.Key()[1:])
			if !fine {
				return fmt.Errorf("read index: a key that does not parse")
			}
			if r.fingerprint != fp {
				break
			}
			if path, live := paths[r.file]; live {
				yield(path, r.ordinal)
			}
		}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	return nil
}
