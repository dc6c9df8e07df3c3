// Package runs keeps the run files of the key index on the local disk. A file that is lost or damaged is made
// again; files are written and synced before a publish names them.
package runs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

const (
	extension   = ".run"
	writeBuffer = 256 << 10
)

// Dir is the run files of all logs. Its owner calls Close. Safe for concurrent use.
type Dir struct {
	fs   fsys.FS
	root string
	max  int // open files that are kept when nobody uses them

	filters *keyrun.Filters

	mu   sync.Mutex
	open map[string]*handle
	tick int64
	// writing has the paths that are being written, each with a channel that is closed when that is over.
	writing map[string]chan struct{}
	// held has the paths that may not be collected, though nothing names them.
	held map[string]bool
}

// handle is an open run. It is closed when it is dropped and nobody uses it.
type handle struct {
	run     *keyrun.Run
	file    fsys.File
	users   int
	dropped bool
	used    int64
}

func (h *handle) close() error {
	h.run.Close()
	return h.file.Close()
}

// Open uses the directory root, which is made if it is not there. maxOpen bounds the files that are kept open
// between uses, filters the bytes of memory for what spares lookups reads in vain.
func Open(fsys fsys.FS, root string, maxOpen int, filters int64) (*Dir, error) {
	if err := fsys.MakeDir(root); err != nil {
		return nil, fmt.Errorf("make run directory: %w: %w", err, fault.ErrUnavailable)
	}
	return &Dir{
		fs: fsys, root: root, max: maxOpen, filters: keyrun.NewFilters(filters),
		open: map[string]*handle{}, writing: map[string]chan struct{}{},
	}, nil
}

// OpenFiles is how many run files are open now.
func (d *Dir) OpenFiles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// FilterBytes is what the filters of the runs take in memory now.
func (d *Dir) FilterBytes() int64 { return d.filters.Used() }

// Close closes the files. Nobody may use a run any more.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for key, h := range d.open {
		errs = append(errs, h.close())
		delete(d.open, key)
	}
	return errors.Join(errs...)
}

// Name is the name of a run over rng that was planned on the given version of the head.
func Name(planned uint64, rng kafkapos.Range) string {
	return fmt.Sprintf("%d-%d-%d", planned, rng.Start, rng.End)
}

// Planned is the version in a name that Name made.
func Planned(name string) (uint64, bool) {
	head, _, ok := strings.Cut(name, "-")
	v, err := strconv.ParseUint(head, 10, 64)
	return v, ok && err == nil
}

// Write writes a run of entries by ascending hash. The file survives a crash when it returns.
func (d *Dir) Write(log state.Log, name string, rng kafkapos.Range, entries []keyrun.Entry) error {
	return d.write(log, name, func(w io.Writer) error {
		_, err := keyrun.Write(w, rng, entries)
		return err
	})
}

// Merge writes one run that says what the given neighbouring ones say.
func (d *Dir) Merge(log state.Log, name string, set keyrun.Set) (entries int64, err error) {
	err = d.write(log, name, func(w io.Writer) error {
		info, err := keyrun.Merge(w, set.Runs()...)
		entries = info.Entries
		return err
	})
	return entries, err
}

func (d *Dir) write(log state.Log, name string, body func(io.Writer) error) error {
	// Two that write one name write the same: one after the other, since they go by the same temporary file.
	defer d.reserve(d.path(log, name))()
	dir := d.dir(log)
	if err := d.fs.MakeDir(dir); err != nil {
		return fmt.Errorf("write run %s of partition %d: %w: %w", name, log.Partition, err, fault.ErrUnavailable)
	}
	err := fsys.WriteFile(d.fs, dir, name+extension, true, func(w io.Writer) error {
		buf := bufio.NewWriterSize(w, writeBuffer)
		if err := body(buf); err != nil {
			return err
		}
		return buf.Flush()
	})
	if err != nil {
		return fmt.Errorf("write run %s of partition %d: %w", name, log.Partition, kind(err))
	}
	d.drop(log, name)
	return nil
}

// reserve waits until nobody else writes the path; release ends the reservation.
func (d *Dir) reserve(path string) (release func()) {
	d.mu.Lock()
	for d.writing[path] != nil {
		busy := d.writing[path]
		d.mu.Unlock()
		<-busy
		d.mu.Lock()
	}
	done := make(chan struct{})
	d.writing[path] = done
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		delete(d.writing, path)
		d.mu.Unlock()
		close(done)
	}
}

// Lost is the error of a run whose file is missing or damaged: it must be made again.
type Lost struct {
	Ref state.RunRef
	Err error
}

// Error implements error.
func (l *Lost) Error() string { return fmt.Sprintf("run %s is lost: %v", l.Ref.Name, l.Err) }

// Unwrap answers the cause.
func (l *Lost) Unwrap() error { return l.Err }

// Set opens the runs that refs name; release ends their use. *Lost: one of them must be made again.
func (d *Dir) Set(log state.Log, refs []state.RunRef) (set keyrun.Set, release func(), err error) {
	var runs []*keyrun.Run
	var held []*handle
	release = func() { d.release(held) }
	for _, ref := range refs {
		h, err := d.acquire(log, ref)
		if err != nil {
			release()
			return keyrun.Set{}, nil, err
		}
		held = append(held, h)
		runs = append(runs, h.run)
	}
	set, err = keyrun.NewSet(runs...)
	if err != nil {
		release()
		return keyrun.Set{}, nil, fmt.Errorf("open runs of partition %d: %w", log.Partition, err)
	}
	return set, release, nil
}

func (d *Dir) acquire(log state.Log, ref state.RunRef) (*handle, error) {
	key := d.path(log, ref.Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tick++
	if h, ok := d.open[key]; ok {
		h.users++
		h.used = d.tick
		return h, nil
	}
	h, err := d.openFile(key, ref)
	if err != nil {
		return nil, err
	}
	h.users, h.used = 1, d.tick
	d.open[key] = h
	d.shrink()
	return h, nil
}

func (d *Dir) openFile(path string, ref state.RunRef) (*handle, error) {
	f, err := d.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Lost{ref, fmt.Errorf("%w: %w", err, fault.ErrNotFound)}
	}
	if err != nil {
		return nil, fmt.Errorf("open run %s: %w: %w", ref.Name, err, fault.ErrUnavailable)
	}
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("open run %s: %w: %w", ref.Name, errors.Join(err, f.Close()), fault.ErrUnavailable)
	}
	run, err := keyrun.Open(f, size, d.filters)
	if err == nil && run.Range() != ref.Range {
		err = fmt.Errorf("run over %s, want %s: %w", run.Range(), ref.Range, fault.ErrCorrupt)
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, fault.ErrCorrupt) {
			return nil, &Lost{ref, err}
		}
		return nil, fmt.Errorf("open run %s: %w: %w", ref.Name, err, fault.ErrUnavailable)
	}
	return &handle{run: run, file: f}, nil
}

// shrink drops the handles that were not used for longest. d.mu is held.
func (d *Dir) shrink() {
	for len(d.open) > d.max {
		oldest := ""
		for key, h := range d.open {
			if h.users == 0 && (oldest == "" || h.used < d.open[oldest].used) {
				oldest = key
			}
		}
		if oldest == "" {
			return
		}
		_ = d.open[oldest].close() // only read from
		delete(d.open, oldest)
	}
}

func (d *Dir) release(held []*handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range held {
		h.users--
		if h.dropped && h.users == 0 {
			_ = h.close() // only read from
		}
	}
	d.shrink()
}

// drop forgets the handle of a file that was replaced or removed.
func (d *Dir) drop(log state.Log, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := d.path(log, name)
	h, ok := d.open[key]
	if !ok {
		return
	}
	delete(d.open, key)
	h.dropped = true
	if h.users == 0 {
		_ = h.close() // only read from
	}
}

// Remove removes a run file; one that is not there is no error.
func (d *Dir) Remove(log state.Log, name string) error {
	d.drop(log, name)
	if err := d.fs.Remove(d.path(log, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove run %s of partition %d: %w: %w", name, log.Partition, err, fault.ErrUnavailable)
	}
	return nil
}

// List answers the names of a log's run files, sorted.
func (d *Dir) List(log state.Log) ([]string, error) {
	infos, err := d.fs.List(d.dir(log))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list runs of partition %d: %w: %w", log.Partition, err, fault.ErrUnavailable)
	}
	var names []string
	for _, i := range infos {
		if name, ok := strings.CutSuffix(i.Name, extension); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

func (d *Dir) dir(log state.Log) string {
	return fmt.Sprintf("%s/%s-%d", d.root, log.Epoch, log.Partition)
}

func (d *Dir) path(log state.Log, name string) string { return d.dir(log) + "/" + name + extension }

// kind keeps the kind of an error, and makes one of the disk a temporary one.
func kind(err error) error {
	for _, k := range []error{fault.ErrInvalid, fault.ErrCorrupt} {
		if errors.Is(err, k) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", err, fault.ErrUnavailable)
}
