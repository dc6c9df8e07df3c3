package probe

import (
	"cmp"
	"slices"
	"strings"
)

// report turns the groups into rows.
func (r *run) report() *Report {
	out := &Report{TableUUID: r.table.UUID, FormatVersion: r.table.FormatVersion}
	r.merge()
	for _, g := range r.all() {
		g.price()
		out.Partitions = append(out.Partitions, g.Partition)
		out.Totals.take(&g.Counts)
	}
	// Of data files, and of the keys that one of them is held against, the sums over rows would count twice.
	out.Totals.Plain.DataFilesTouched, out.Totals.Pruned.DataFilesTouched = r.touched, r.touchedPruned
	out.Totals.Plain.WorstKeys, out.Totals.Pruned.WorstKeys = r.worstKeys, r.worstKeysPruned
	slices.SortFunc(out.Partitions, func(a, b Partition) int {
		return cmp.Or(
			cmp.Compare(b.Plain.ProbeUnits, a.Plain.ProbeUnits),
			cmp.Compare(b.EqualityDeleteFiles, a.EqualityDeleteFiles),
			cmp.Compare(a.SpecID, b.SpecID),
			strings.Compare(a.Path, b.Path),
		)
	})
	for _, k := range r.keyColumns {
		out.KeyColumns = append(out.KeyColumns, *k)
	}
	slices.SortFunc(out.KeyColumns, func(a, b KeyColumns) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), slices.Compare(a.FieldIDs, b.FieldIDs))
	})
	for i, at := range r.cfg.Thresholds {
		out.FilesByDeletes = append(out.FilesByDeletes, Threshold{AtLeast: at, Files: r.byDeletes[i]})
	}
	return out
}

// merge makes one row of a table that has never been partitioned: its data files and its global deletes are the same
// partition.
func (r *run) merge() {
	if r.global == nil || len(r.groups) != 1 {
		return
	}
	for key, g := range r.groups {
		if spec, err := r.table.Spec(g.SpecID); err != nil || !spec.Unpartitioned() || g.SpecID != r.global.SpecID {
			return
		}
		to := r.global
		to.DataFiles, to.DataRecords = g.DataFiles, g.DataRecords
		to.PositionDeleteFiles, to.DeletedPositions = g.PositionDeleteFiles, g.DeletedPositions
		to.DeletionVectors, to.VectorPositions = g.DeletionVectors, g.VectorPositions
		delete(r.groups, key)
	}
}

// price computes what follows from the levels.
func (g *group) price() {
	var fanout int64
	for i := len(g.levels) - 1; i >= 0; i-- {
		l := &g.levels[i]
		fanout += l.upTo // a level applies to every file to which an older one applies
		g.Plain.ProbeUnits = add(g.Plain.ProbeUnits, mul(l.keys, fanout))
		g.Plain.WorstFanout = max(g.Plain.WorstFanout, fanout)
		if fanout == 0 {
			g.DanglingDeleteFiles += l.files
		}
	}
}

func (c *Counts) take(d *Counts) {
	c.DataFiles += d.DataFiles
	c.DataRecords += d.DataRecords
	c.EqualityDeleteFiles += d.EqualityDeleteFiles
	c.EqualityDeleteBytes += d.EqualityDeleteBytes
	c.DeleteKeys = add(c.DeleteKeys, d.DeleteKeys)
	c.DanglingDeleteFiles += d.DanglingDeleteFiles
	c.PositionDeleteFiles += d.PositionDeleteFiles
	c.DeletedPositions += d.DeletedPositions
	c.DeletionVectors += d.DeletionVectors
	c.VectorPositions += d.VectorPositions
	for _, p := range [][2]*Cost{{&c.Plain, &d.Plain}, {&c.Pruned, &d.Pruned}} {
		p[0].ProbeUnits = add(p[0].ProbeUnits, p[1].ProbeUnits)
		p[0].WorstFanout = max(p[0].WorstFanout, p[1].WorstFanout)
	}
}
