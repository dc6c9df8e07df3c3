package drain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/probe"
)

// merge makes one position delete file or deletion vector of the several that data files have: in format version 2 for
// data files with at least Config.MergeFrom files, in version 3 for all that still have files of version 2. Conflicts
// cost a new beginning: position deletes are small beside data.
func (d *drainer) merge(ctx context.Context) error {
	pause := 100 * time.Millisecond
	for try := 0; ; try++ {
		h, err := d.load(ctx)
		if err != nil || h == nil {
			return err
		}
		err = d.mergeOnce(ctx, h)
		if !errors.Is(err, fault.ErrConflict) || try == d.cfg.Retries {
			return err
		}
		d.report.Conflicts++
		if err := d.cfg.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 10*time.Second)
	}
}

func (d *drainer) mergeOnce(ctx context.Context, h *head) error {
	all, err := h.positionFiles(ctx)
	if err != nil {
		return fmt.Errorf("read delete manifests: %w", err)
	}
	if len(all) == 0 {
		return nil
	}
	found := newPositions(d.cfg.Memory/4, d.cfg.Scratch)
	defer found.close() //nolint:errcheck // scratch files
	m := &merging{d: d, h: h, found: found, covers: map[string]int{}}
	if err := m.cover(ctx, all); err != nil {
		return err
	}
	chosen := m.choose(all, d.cfg.MergeFrom)
	if len(chosen) == 0 {
		return nil
	}
	if err := m.findTargets(ctx, chosen); err != nil {
		return err
	}
	if err := m.collect(ctx, chosen); err != nil {
		return err
	}
	p := &plan{head: h}
	for _, t := range m.targets {
		p.targets = append(p.targets, t)
	}
	d.report.FormatVersion = h.table.Meta.FormatVersion
	return d.commit(ctx, p, found, chosen...)
}

// positionDeletes is a live position delete file, no vector.
type positionDeletes struct {
	positionFile
	seq   int64
	group string
	// only is the data file that it is about; "" = it may be about several, those in paths.
	only  string
	paths map[string]bool
}

func (h *head) positionFiles(ctx context.Context) ([]*positionDeletes, error) {
	var out []*positionDeletes
	want := icebergscan.Want{Stats: []int32{icebergscan.PathFieldID}}
	for e, err := range h.scan.Entries(ctx, icebergscan.DeletesManifest, want) {
		if err != nil {
			return nil, err
		}
		if e.Content != icebergscan.PositionDeletes || e.DeletionVector() {
			continue
		}
		only := string(e.Target())
		out = append(out, &positionDeletes{
			positionFile: positionFile{manifest: e.Manifest.Path, path: string(e.Path), format: string(e.Format), alone: only != ""},
			seq:          e.SequenceNumber, group: string(bytes.Clone(e.PartitionKey())), only: only,
		})
	}
	return out, nil
}

type merging struct {
	d       *drainer
	h       *head
	found   *positions
	covers  map[string]int     // how many files a data file has
	targets map[string]*target // of the chosen files
}

// cover counts the files of each data file. Those that may be about several are read for that.
func (m *merging) cover(ctx context.Context, all []*positionDeletes) error {
	for _, f := range all {
		if f.only != "" {
			f.paths = map[string]bool{f.only: true}
		} else {
			f.paths = map[string]bool{}
			err := m.read(ctx, f, func(path []byte, _ int64) {
				if !f.paths[string(path)] {
					f.paths[string(path)] = true
				}
			})
			if err != nil {
				return err
			}
		}
		for path := range f.paths {
			m.covers[path]++
		}
	}
	return nil
}

func (m *merging) read(ctx context.Context, f *positionDeletes, yield func([]byte, int64)) error {
	return m.d.readFile(ctx, m.h.table.Store, f.path, f.format, func(src datafile.Source) error {
		return datafile.Positions(ctx, src, yield)
	})
}

// choose answers the files that are merged away. A file over several data files goes if one of them has enough files.
func (m *merging) choose(all []*positionDeletes, from int) []*positionDeletes {
	if m.h.table.Meta.FormatVersion >= 3 {
		return all
	}
	rewritten := map[string]bool{}
	for path, n := range m.covers {
		rewritten[path] = n >= from
	}
	var out []*positionDeletes
	chosen := map[*positionDeletes]bool{}
	for again := true; again; { // a file that goes takes its data files along, and these their files
		again = false
		for _, f := range all {
			if chosen[f] {
				continue
			}
			for path := range f.paths {
				if rewritten[path] {
					chosen[f], again = true, true
					break
				}
			}
			if chosen[f] {
				out = append(out, f)
				for path := range f.paths {
					rewritten[path] = true
				}
			}
		}
	}
	return out
}

// findTargets finds the live data files that the chosen files are about.
func (m *merging) findTargets(ctx context.Context, chosen []*positionDeletes) error {
	want := map[string]bool{}
	for _, f := range chosen {
		for path := range f.paths {
			want[path] = true
		}
	}
	m.targets = map[string]*target{}
	schemas := map[string]json.RawMessage{}
	for e, err := range m.h.scan.Entries(ctx, icebergscan.DataManifest, icebergscan.Want{}) {
		if err != nil {
			return fmt.Errorf("read data manifests: %w", err)
		}
		if !want[string(e.Path)] {
			continue
		}
		t, err := newTarget(e, probe.Touch{}, schemas)
		if err != nil {
			return err
		}
		m.targets[t.path] = t
	}
	return nil
}

// collect reads the positions that apply.
func (m *merging) collect(ctx context.Context, chosen []*positionDeletes) error {
	progress := newMeter(m.d, "merge", int64(len(chosen)))
	for _, f := range chosen {
		sets := map[string]*roaring.Bitmap{}
		err := m.read(ctx, f, func(path []byte, pos int64) {
			t := m.targets[string(path)]
			if t == nil || f.seq < t.seq || f.group != t.group || f.only != "" && f.only != t.path || pos < 0 || pos >= t.records {
				return // it deletes nothing
			}
			if sets[t.path] == nil {
				sets[t.path] = roaring.New()
			}
			sets[t.path].Add(uint32(pos))
		})
		if err != nil {
			return err
		}
		for path, set := range sets {
			if err := m.found.add(path, set); err != nil {
				return err
			}
		}
		progress.add(1)
	}
	return nil
}
