package drain

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
)

// Forecast is what a run would do to a table as it is, by its metadata. Its JSON form is documented in docs/DRAIN.md.
type Forecast struct {
	FormatVersion int    `json:"format_version"`
	Branch        string `json:"branch"`
	SnapshotID    int64  `json:"snapshot_id"`
	Sequence      int64  `json:"sequence_number"`

	// Snapshots is how many there are since the last drain, or in all that is known of the branch's history.
	Snapshots int64 `json:"snapshots_since_drain"`

	EqualityDeleteFiles int64 `json:"equality_delete_files"`
	EqualityDeleteBytes int64 `json:"equality_delete_bytes"`
	DeleteKeys          int64 `json:"delete_keys"`
	// KeyColumns are the names of the columns that each set of deletes compares.
	KeyColumns [][]string `json:"key_columns"`
	// DataFiles may be touched after pruning by bounds: they are opened, for their key columns. Rows and DataBytes are
	// theirs, whole; DataBytes is no more than an upper limit of what is read.
	DataFiles int64 `json:"data_files"`
	Rows      int64 `json:"rows"`
	DataBytes int64 `json:"data_bytes"`
	// Batches is how many commits it takes, Passes how often data is read in the worst of them.
	Batches int `json:"batches"`
	Passes  int `json:"passes"`
	// ProbeUnits are gained by all of it, and after pruning by bounds.
	ProbeUnits       int64 `json:"probe_units"`
	ProbeUnitsPruned int64 `json:"probe_units_pruned"`
	// Refused says what stands in the way; empty if nothing does.
	Refused []string `json:"refused"`
}

// Plan answers what Run would do. It opens no data file. Errors: those of the catalog and of the metadata.
func Plan(ctx context.Context, cat Catalog, cfg Config) (*Forecast, error) {
	cfg.fill()
	d := &drainer{cat: cat, cfg: cfg, report: &Report{}}
	out := &Forecast{Branch: cfg.Branch, KeyColumns: [][]string{}, Refused: []string{}}
	h, err := d.load(ctx)
	if err != nil || h == nil {
		return out, err
	}
	out.FormatVersion, out.SnapshotID, out.Sequence = h.table.Meta.FormatVersion, h.snapshot.ID, h.snapshot.SequenceNumber
	out.Snapshots = h.sinceDrain()
	all, err := h.deletes(ctx, h.snapshot.SequenceNumber)
	if err != nil {
		return nil, fmt.Errorf("read delete manifests: %w", err)
	}
	if len(all) == 0 {
		return out, nil
	}
	for _, e := range all {
		out.EqualityDeleteFiles++
		out.EqualityDeleteBytes += e.size
		out.DeleteKeys += e.records
	}
	capacity := d.keyCapacity()
	batches := batchesOf(all, capacity)
	out.Batches = len(batches)
	for _, b := range batches {
		out.Passes = max(out.Passes, len(passesOf(b, capacity)))
	}
	p, err := h.plan(ctx, all)
	if errors.Is(err, fault.ErrUnsupported) {
		out.Refused = append(out.Refused, err.Error())
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, s := range p.keys.sets {
		var names []string
		for _, at := range s.columns {
			names = append(names, p.keys.fields[at].Name)
		}
		out.KeyColumns = append(out.KeyColumns, names)
	}
	for _, t := range p.targets {
		out.DataFiles++
		out.Rows += t.records
		out.DataBytes += t.size
	}
	out.ProbeUnits, out.ProbeUnitsPruned = p.gain.PlainKeys, p.gain.Keys
	return out, nil
}

// Mark is the key of the summary that tells the snapshots of a drain from others.
const Mark = "frazil-drain"

func (h *head) sinceDrain() int64 {
	n := int64(0)
	for s := h.snapshot; s.Summary[Mark] == ""; n++ {
		parent, err := h.table.Meta.Snapshot(s.ParentID)
		if err != nil { // the first one, or those before are expired
			return n + 1
		}
		s = parent
	}
	return n
}
