package drain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/rowindex"
)

// File is an open object.
type File = icebergscan.File

// Store reads and writes the objects of a table. Safe for concurrent use. Errors of Open and File: fault.ErrNotFound.
type Store interface {
	icebergcommit.Store
	File(ctx context.Context, location string) (File, error)
	// Remove removes an object that no snapshot has. What is not there is no error.
	Remove(ctx context.Context, location string) error
}

// Table is a table as the catalog had it a moment ago.
type Table struct {
	icebergcommit.Base
	Store Store
	// Origin is what the catalog needs to commit to this version.
	Origin any
}

// Catalog loads a table and commits to it.
type Catalog interface {
	Load(ctx context.Context) (*Table, error)
	// Commit applies the commit to the version that was loaded. Errors: fault.ErrConflict if it was not applied and
	// cannot be any more; after every other error it may have been, or may still be.
	Commit(ctx context.Context, t *Table, c *icebergcommit.Commit) error
}

// Config says what to drain and within which limits.
type Config struct {
	// Branch is drained in place.
	Branch string
	// Target is a branch that is moved on to what was drained; "" = none. It must have no snapshot that is not in the
	// history of Branch, and be there unless it is the main branch, which then begins with a drained snapshot.
	Target string
	// MergeFrom, if above 0, merges position deletes as well: in format version 2 those of data files that have at
	// least so many files, in version 3 all that are left of version 2.
	MergeFrom int
	// Memory bounds delete keys and positions held, bytes. 0 = DefaultMemory.
	Memory int64
	// Retries is how often one batch is tried again after a conflict. 0 = DefaultRetries.
	Retries int
	// Workers is how many data files are scanned at once. 0 = one for each core.
	Workers int
	// Index finds rows by their keys, so that only those are read; nil = data files are scanned. It must be of the
	// table and the branch.
	Index *rowindex.Index
	// Scratch is the directory for what does not fit in memory. "" = that of the system.
	Scratch string
	// Summary is put into the summaries of the snapshots.
	Summary map[string]string
	// Progress, if not nil, is told of every step. It is called from several goroutines.
	Progress func(Progress)
	// Fail, if not nil, is asked at every step of a commit, for tests of crashes: an error ends the run as it is.
	Fail func(step string) error

	Log *slog.Logger
	Now func() time.Time
	// Sleep waits between tries; it answers the cause when ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Defaults.
const (
	DefaultMemory  = 256 << 20
	DefaultRetries = 20
)

func (c *Config) fill() {
	if c.Branch == "" {
		c.Branch = icebergscan.MainBranch
	}
	if c.Memory <= 0 {
		c.Memory = DefaultMemory
	}
	if c.Retries <= 0 {
		c.Retries = DefaultRetries
	}
	if c.Workers <= 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Fail == nil {
		c.Fail = func(string) error { return nil }
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Progress is how far a batch is.
type Progress struct {
	Batch, Batches int
	// Stage is keys, scan, merge or commit.
	Stage string
	// Done of Total: delete keys read, rows scanned, position delete files read, data files written for.
	Done, Total int64
}

// Report is what a run did. Its JSON form is documented in docs/DRAIN.md.
type Report struct {
	FormatVersion int    `json:"format_version"`
	Branch        string `json:"branch"`
	// Snapshots are the ids of the snapshots that were committed, in order.
	Snapshots []int64 `json:"snapshots"`
	// Forwarded is the snapshot that the target branch was moved on to; 0 = it was not moved.
	Forwarded int64 `json:"forwarded,omitempty"`
	Batches   int   `json:"batches"`
	// EqualityDeleteFiles and DeleteKeys were drained.
	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	DeleteKeys          int64 `json:"delete_keys"`
	// ProbeUnits are those that the drained deletes cost, and after pruning by bounds.
	ProbeUnits       int64 `json:"probe_units"`
	ProbeUnitsPruned int64 `json:"probe_units_pruned"`
	// DataFilesScanned, RowsScanned and BytesRead are the work. BytesRead counts data and delete files.
	DataFilesScanned int64 `json:"data_files_scanned"`
	// DataFilesIndexed were read whole to get into the index; DataFilesForgotten were taken out of it.
	DataFilesIndexed   int64 `json:"data_files_indexed"`
	DataFilesForgotten int64 `json:"data_files_forgotten"`
	RowsScanned        int64 `json:"rows_scanned"`
	BytesRead          int64 `json:"bytes_read"`
	// Positions are rows that the deletes hit, rows already deleted by position among them.
	Positions int64 `json:"positions"`
	// DeleteFilesAdded are position delete files or deletion vectors; DeleteFilesMerged those that they replace.
	DeleteFilesAdded  int64 `json:"delete_files_added"`
	DeleteFilesMerged int64 `json:"delete_files_merged"`
	BytesWritten      int64 `json:"bytes_written"`
	// Conflicts are commits that were lost to another writer; Replans how many of them made what was found worthless.
	Conflicts int64 `json:"conflicts"`
	Replans   int64 `json:"replans"`
}

// Run drains every equality delete that the branch has when it begins. What was committed before an error stays, and
// the report says what it was. Errors: fault.ErrUnsupported naming what cannot be drained, fault.ErrConflict after too
// many conflicts, fault.ErrCorrupt, else what catalog and store answer.
func Run(ctx context.Context, cat Catalog, cfg Config) (*Report, error) {
	cfg.fill()
	d := &drainer{cat: cat, cfg: cfg, report: &Report{Branch: cfg.Branch, Snapshots: []int64{}}}
	err := d.run(ctx)
	if err == nil && cfg.MergeFrom > 0 {
		if err = d.merge(ctx); err != nil {
			err = fmt.Errorf("merge position deletes: %w", err)
		}
	}
	if err == nil && cfg.Target != "" {
		err = d.toTarget(ctx)
	}
	d.report.BytesRead = d.read.Load()
	d.report.RowsScanned, d.report.DataFilesScanned = d.rows.Load(), d.files.Load()
	d.report.DataFilesIndexed = d.indexed.Load()
	return d.report, err
}

func (d *drainer) run(ctx context.Context) error {
	upTo := int64(-1)
	for {
		h, err := d.load(ctx)
		if err != nil || h == nil {
			return err
		}
		if upTo < 0 {
			upTo = h.snapshot.SequenceNumber
		}
		d.report.FormatVersion = h.table.Meta.FormatVersion
		if err := d.forget(ctx, h); err != nil {
			return err
		}
		all, err := h.deletes(ctx, upTo)
		if err != nil {
			return fmt.Errorf("read delete manifests: %w", err)
		}
		if len(all) == 0 {
			return nil
		}
		capacity := d.keyCapacity()
		batches := batchesOf(all, capacity)
		d.batch, d.batches = d.report.Batches+1, d.report.Batches+len(batches)
		if err := d.drain(ctx, h, batches[0]); err != nil {
			return fmt.Errorf("batch %d: %w", d.batch, err)
		}
		d.report.Batches++
	}
}

// forwardRounds is how often what other writers have brought meanwhile is drained before the target is given up for
// this run.
const forwardRounds = 10

// toTarget moves the target on, draining what came in between.
func (d *drainer) toTarget(ctx context.Context) error {
	for range forwardRounds {
		done, err := d.forward(ctx)
		if err != nil || done {
			return err
		}
		if err := d.run(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("branch %s gets equality deletes faster than they are drained: %s stays where it is: %w", d.cfg.Branch, d.cfg.Target, fault.ErrUnavailable)
}

// load answers the head of the branch; nil for a branch without snapshots.
func (d *drainer) load(ctx context.Context) (*head, error) {
	t, err := d.cat.Load(ctx)
	if err != nil {
		return nil, err
	}
	s, err := t.Meta.Head(d.cfg.Branch)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, nil
	}
	if r, ok := t.Meta.Refs[d.cfg.Branch]; ok && r.Type != "branch" {
		return nil, fmt.Errorf("%s is a tag, and tags do not move: %w", d.cfg.Branch, fault.ErrInvalid)
	}
	scan, err := icebergscan.Open(ctx, t.Store, t.Meta, s)
	if err != nil {
		return nil, err
	}
	return &head{table: t, snapshot: s, scan: scan}, nil
}

// drain resolves and commits one batch, again and again while other writers are faster.
func (d *drainer) drain(ctx context.Context, h *head, batch []*equality) error {
	found := newPositions(d.cfg.Memory/4, d.cfg.Scratch)
	defer found.close() //nolint:errcheck // scratch files
	pause := 100 * time.Millisecond
	for try := 0; ; try++ {
		p, err := h.plan(ctx, batch)
		if err != nil {
			return err
		}
		if err := d.resolve(ctx, p, found); err != nil {
			return err
		}
		err = d.commit(ctx, p, found)
		if err == nil {
			d.account(p, found)
			return nil
		}
		if !errors.Is(err, fault.ErrConflict) {
			return err
		}
		d.report.Conflicts++
		if try == d.cfg.Retries {
			return fmt.Errorf("lost %d commits to other writers: %w", try+1, err)
		}
		d.cfg.Log.Info("a commit was lost to another writer", "branch", d.cfg.Branch, "try", try+1, "err", err)
		if err := d.cfg.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 10*time.Second)
		if h, err = d.load(ctx); err != nil {
			return err
		}
		if h == nil {
			return fmt.Errorf("the branch has no snapshot any more: %w", fault.ErrConflict)
		}
		if batch, err = d.again(ctx, h, batch, found); err != nil || len(batch) == 0 {
			return err
		}
	}
}

// again answers the batch as the new head has it. If one of its deletes is gone, positions that it found must not be
// written: then all are forgotten.
func (d *drainer) again(ctx context.Context, h *head, batch []*equality, found *positions) ([]*equality, error) {
	want := map[string]bool{}
	for _, e := range batch {
		want[e.path] = true
	}
	live, err := h.deletesIf(ctx, func(e *icebergscan.Entry) bool { return want[string(e.Path)] })
	if err != nil {
		return nil, fmt.Errorf("read delete manifests: %w", err)
	}
	if len(live) < len(batch) {
		d.report.Replans++
		if err := found.forget(); err != nil {
			return nil, err
		}
	}
	return live, nil
}

func (d *drainer) account(p *plan, found *positions) {
	r := d.report
	for _, e := range p.batch {
		r.EqualityDeleteFiles++
		r.DeleteKeys += e.records
	}
	r.ProbeUnits = addSaturating(r.ProbeUnits, p.gain.PlainKeys)
	r.ProbeUnitsPruned = addSaturating(r.ProbeUnitsPruned, p.gain.Keys)
	for _, t := range p.targets {
		r.Positions += found.count(t.path)
	}
}

func addSaturating(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return int64(^uint64(0) >> 1)
}
