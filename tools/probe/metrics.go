package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/probe"
)

// sample is one line of Prometheus' text format.
type sample struct {
	name, help string
	labels     [][2]string
	value      float64
}

// samples answers the figures of tables: totals, and of the worst partitions as many as top says.
func samples(results []*Result, top int) []sample {
	var out []sample
	for _, r := range results {
		table := [][2]string{{"table", r.Table}, {"ref", r.Ref}}
		put := func(name, help string, v int64, labels ...[2]string) {
			out = append(out, sample{"frazil_table_" + name, help, append(slices.Clone(table), labels...), float64(v)})
		}
		t := &r.Totals
		for _, c := range []struct {
			bounds string
			cost   probe.Cost
		}{{"ignored", t.Plain}, {"pruned", t.Pruned}} {
			l := [2]string{"bounds", c.bounds}
			put("probe_units", "Delete keys times data files that equality deletes may touch.", c.cost.ProbeUnits, l)
			put("data_files_touched", "Data files that an equality delete may touch.", c.cost.DataFilesTouched, l)
			put("worst_fanout", "Data files that one equality delete file may touch, at the worst.", c.cost.WorstFanout, l)
			put("worst_keys_per_data_file", "Delete keys that one data file is held against, at the worst.", c.cost.WorstKeys, l)
		}
		put("equality_delete_files", "Live equality delete files.", t.EqualityDeleteFiles)
		put("dangling_equality_delete_files", "Equality delete files that touch no data file.", t.DanglingDeleteFiles)
		put("delete_keys", "Rows of live equality delete files.", t.DeleteKeys)
		put("data_files", "Live data files.", t.DataFiles)
		put("position_delete_files", "Live position delete files.", t.PositionDeleteFiles)
		put("deleted_positions", "Rows of live position delete files.", t.DeletedPositions)
		put("deletion_vectors", "Live deletion vectors.", t.DeletionVectors)
		put("vector_positions", "Positions in live deletion vectors.", t.VectorPositions)
		put("snapshot_timestamp_seconds", "When the measured snapshot was committed.", max(0, r.SnapshotTime.Unix()))
		put("probe_timestamp_seconds", "When it was measured.", r.At.Unix())
		out = append(out, sample{"frazil_table_probe_duration_seconds", "How long measuring took.", table, r.Took.Seconds()})
		rows := first(r.Partitions, top)
		for i := range rows {
			p := &rows[i]
			labels := append(slices.Clone(table), [2]string{"partition", label(p)}, [2]string{"spec", strconv.Itoa(int(p.SpecID))})
			out = append(out,
				sample{"frazil_partition_probe_units", "Probe units of the worst partitions.", labels, float64(p.Plain.ProbeUnits)},
				sample{"frazil_partition_equality_delete_files", "Equality delete files of the worst partitions.", labels, float64(p.EqualityDeleteFiles)})
		}
	}
	return out
}

// writeMetrics writes Prometheus' text format: samples of one name together, under one head.
func writeMetrics(b *strings.Builder, all []sample) {
	var names []string
	byName := map[string][]sample{}
	for _, s := range all {
		if byName[s.name] == nil {
			names = append(names, s.name)
		}
		byName[s.name] = append(byName[s.name], s)
	}
	slices.Sort(names)
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	for _, name := range names {
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, byName[name][0].help, name, kind)
		for _, s := range byName[name] {
			labels := make([]string, 0, len(s.labels))
			for _, l := range s.labels {
				labels = append(labels, l[0]+`="`+escape.Replace(l[1])+`"`)
			}
			fmt.Fprintf(b, "%s{%s} %s\n", name, strings.Join(labels, ","), strconv.FormatFloat(s.value, 'g', -1, 64))
		}
	}
}
