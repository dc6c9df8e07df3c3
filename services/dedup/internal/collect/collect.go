// Package collect removes state that nothing names any more.
package collect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/services/dedup/internal/runs"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Collector removes blobs and run files that no head and no record names. Two conditions make that safe for a writer
// that is under way, however long it was paused: what it wrote is named by the version that it was planned on, and
// only what was planned on a version below the present one is removed, so that its compare-and-set has already lost;
// and what was named once stays for the retention, for readers that still hold a name.
//
// Only one goroutine uses a Collector.
type Collector struct {
	store *state.Store
	runs  *runs.Dir
	keep  time.Duration
	now   func() time.Time
	// unnamed is since when a thing was seen without a name.
	unnamed map[string]time.Time
}

// New makes a collector that leaves unnamed things alone for keep.
func New(store *state.Store, runs *runs.Dir, keep time.Duration, now func() time.Time) *Collector {
	return &Collector{store: store, runs: runs, keep: keep, now: now, unnamed: map[string]time.Time{}}
}

// Collect looks at everything once.
func (c *Collector) Collect(ctx context.Context) error {
	keys, err := c.store.List(ctx, "epoch/")
	if err != nil {
		return fmt.Errorf("list state epochs: %w", err)
	}
	seen := map[string]time.Time{}
	for _, key := range keys {
		if err := c.epoch(ctx, strings.TrimPrefix(key, "epoch/"), seen); err != nil {
			return err
		}
	}
	c.unnamed = seen
	return nil
}

// sweep is one list of things that belong together.
type sweep struct {
	names []string
	// used is what is named now.
	used map[string]bool
	// late reports whether a writer may still publish the name.
	late   func(name string) bool
	id     func(name string) string // unique over all sweeps
	remove func(ctx context.Context, name string) error
}

func (c *Collector) sweep(ctx context.Context, s sweep, seen map[string]time.Time) error {
	now := c.now()
	for _, name := range s.names {
		if s.used[name] || s.late(name) {
			continue
		}
		id := s.id(name)
		since, ok := c.unnamed[id]
		if !ok {
			since = now
		}
		if now.Sub(since) < c.keep {
			seen[id] = since
			continue
		}
		if err := s.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// blobs sweeps the blobs behind a prefix.
func (c *Collector) blobs(ctx context.Context, prefix string, used map[string]bool, late func(string) bool, seen map[string]time.Time) error {
	names, err := c.store.ListBlobs(ctx, prefix)
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], prefix)
	}
	return c.sweep(ctx, sweep{
		names: names, used: used, late: late,
		id:     func(name string) string { return prefix + name },
		remove: func(ctx context.Context, name string) error { return c.store.DeleteBlob(ctx, prefix+name) },
	}, seen)
}

func never(string) bool { return false }

// epoch sweeps a state epoch. One that was given up is swept whole.
func (c *Collector) epoch(ctx context.Context, epoch string, seen map[string]time.Time) error {
	info, _, err := c.store.Epoch(ctx, epoch)
	if err != nil {
		return err
	}
	rec, _, err := c.store.Record(ctx, info.Topic.ID)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	if err != nil || rec.Epoch != epoch || info.Replaced != "" {
		rec = nil
	}
	if rec == nil && info.Replaced == "" {
		return nil // being made: its record comes next
	}
	cuts, err := c.record(ctx, epoch, rec, seen)
	if err != nil {
		return err
	}
	chunkLog2 := 0
	if rec != nil {
		chunkLog2 = rec.ChunkLog2
	}
	heads, err := c.store.List(ctx, state.HeadPrefix(epoch))
	if err != nil {
		return err
	}
	for _, key := range heads {
		p, err := strconv.Atoi(strings.TrimPrefix(key, state.HeadPrefix(epoch)))
		if err != nil {
			continue
		}
		log := state.Log{Epoch: epoch, Partition: kafkapos.Partition(p)}
		if err := c.log(ctx, log, rec != nil, chunkLog2, cuts, seen); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

// record sweeps what the record names, and answers the kept cuts.
func (c *Collector) record(ctx context.Context, epoch string, rec *state.Record, seen map[string]time.Time) ([][]kafkapos.Range, error) {
	snaps, groups, present := map[string]bool{}, map[string]bool{}, uint64(0)
	var cuts [][]kafkapos.Range
	if rec != nil {
		present = rec.Version
		for _, ref := range rec.Snapshots {
			snap, err := c.store.Snapshot(ctx, epoch, ref.Blob)
			if err != nil {
				return nil, fmt.Errorf("read snapshot %d: %w", ref.ID, err)
			}
			snaps[ref.Blob] = true
			cuts = append(cuts, snap.Cut)
			for _, g := range snap.Groups {
				groups[g.Name] = true
			}
		}
	}
	lateSnapshot := func(name string) bool {
		v, ok := state.Planned(state.RootKind, name)
		return rec != nil && (!ok || v >= present)
	}
	lateGroup := func(name string) bool {
		if rec == nil {
			return false
		}
		// The version that a group was planned on is in the blob.
		b, err := c.store.GetBlob(ctx, state.GroupBlob(epoch, name))
		if err != nil {
			return true
		}
		v, _, err := state.ParseManifestGroup(b)
		return err == nil && v >= present
	}
	err := errors.Join(
		c.blobs(ctx, state.VersionPrefix(epoch), nil, never, seen),
		c.blobs(ctx, state.SnapshotPrefix(epoch), snaps, lateSnapshot, seen),
		c.blobs(ctx, state.GroupPrefix(epoch), groups, lateGroup, seen),
	)
	return cuts, err
}

// log sweeps the blobs and run files of a log.
func (c *Collector) log(
	ctx context.Context, log state.Log, live bool, chunkLog2 int, cuts [][]kafkapos.Range, seen map[string]time.Time,
) error {
	used, present := map[string]map[string]bool{}, chainstore.Version(0)
	for _, kind := range state.LogKinds() {
		used[kind] = map[string]bool{}
	}
	usedRuns := map[string]bool{}
	if live {
		v, err := c.store.View(ctx, log)
		if err != nil {
			return err
		}
		present = v.Version
		if err := c.named(ctx, v, used); err != nil {
			return err
		}
		for _, r := range v.Root.Runs {
			usedRuns[r.Name] = true
		}
	}
	ends := map[string]bool{}
	for _, cut := range cuts {
		if int(log.Partition) < len(cut) {
			// The files that can be others than the directory's: of the chunk that was open, and of the one that
			// the start had cut.
			ends[state.RowGroupsOf(cut[log.Partition].End)] = true
			ends[state.RowGroupsOf(layout.Chunk(cut[log.Partition].Start, chunkLog2).End)] = true
		}
	}
	for _, kind := range state.LogKinds() {
		late := func(name string) bool {
			v, ok := state.Planned(kind, name)
			end, _, _ := strings.Cut(name, "-")
			// Files of kept snapshots need their row groups, whatever the directory names now.
			return live && (!ok || v >= uint64(present) || kind == state.RowGroupKind && ends[end+"-"])
		}
		if err := c.blobs(ctx, state.LogPrefix(kind, log.Epoch, log.Partition), used[kind], late, seen); err != nil {
			return err
		}
	}
	names, err := c.runs.List(log)
	if err != nil {
		return err
	}
	return c.sweep(ctx, sweep{
		names: names, used: usedRuns,
		late: func(name string) bool {
			v, ok := runs.Planned(name)
			return live && ok && v >= uint64(present) || c.runs.Held(log, name)
		},
		id:     func(name string) string { return fmt.Sprintf("run/%s/%d/%s", log.Epoch, log.Partition, name) },
		remove: func(_ context.Context, name string) error { return c.runs.Remove(log, name) },
	}, seen)
}

// named collects everything that a log's directory names.
func (c *Collector) named(ctx context.Context, v *state.View, used map[string]map[string]bool) error {
	used[state.RootKind][v.Head.Directory] = true
	for _, r := range v.Root.Recent {
		used[state.SegmentKind][r.Blob] = true
	}
	for _, ref := range v.Root.Pages {
		used[state.PageKind][ref.Blob] = true
		page, err := c.store.Page(ctx, v.Log, v.Root, ref.Number)
		if err != nil {
			return err
		}
		for _, chunk := range page.Chunks {
			used[state.RowGroupKind][chunk.RowGroups] = true
			for _, name := range chunk.Layouts {
				used[state.LayoutKind][name] = true
			}
			for _, name := range chunk.Segments {
				used[state.SegmentKind][name] = true
			}
			for _, g := range chunk.Groups {
				used[state.FoldKind][g.Blob] = true
			}
		}
	}
	return nil
}
