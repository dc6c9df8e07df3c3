package probe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/frazil-io/frazil/libs/probe"
)

func writeJSON(b *strings.Builder, results []*Result, top int) error {
	enc := json.NewEncoder(b)
	enc.SetIndent("", "  ")
	for _, r := range results {
		short := *r
		report := *r.Report
		report.Partitions = first(report.Partitions, top)
		short.Report = &report
		if err := enc.Encode(short); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

func first(rows []probe.Partition, top int) []probe.Partition {
	if top > 0 && len(rows) > top {
		return rows[:top]
	}
	return rows
}

func writeText(b *strings.Builder, r *Result, top int) {
	t := &r.Totals
	n := probe.Short
	if r.SnapshotID == 0 {
		fmt.Fprintf(b, "%s, %s: no snapshot\n", r.Table, r.Ref)
		return
	}
	fmt.Fprintf(b, "%s, %s: snapshot %d of %s, format version %d\n\n", r.Table, r.Ref, r.SnapshotID, r.SnapshotTime.Format(time.DateTime), r.FormatVersion)
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "probe units\t%s, %s after pruning by key bounds\n", n(t.Plain.ProbeUnits), n(t.Pruned.ProbeUnits))
	fmt.Fprintf(w, "equality deletes\t%s files, %s keys%s\n", n(t.EqualityDeleteFiles), n(t.DeleteKeys), dangling(t))
	for _, k := range r.KeyColumns {
		fmt.Fprintf(w, "\ton %s: %s files, %s keys\n", strings.Join(k.Names, ", "), n(k.Files), n(k.Keys))
	}
	fmt.Fprintf(w, "data files\t%s, %s touched (%s after pruning)\n", n(t.DataFiles), n(t.Plain.DataFilesTouched), n(t.Pruned.DataFilesTouched))
	fmt.Fprintf(w, "worst\tone delete file touches %s data files (%s); one data file meets %s keys (%s)\n",
		n(t.Plain.WorstFanout), n(t.Pruned.WorstFanout), n(t.Plain.WorstKeys), n(t.Pruned.WorstKeys))
	fmt.Fprintf(w, "position deletes\t%s files, %s positions\n", n(t.PositionDeleteFiles), n(t.DeletedPositions))
	fmt.Fprintf(w, "deletion vectors\t%s, %s positions\n", n(t.DeletionVectors), n(t.VectorPositions))
	fmt.Fprintf(w, "trend\t%s\n", trend(&r.Trend))
	w.Flush() //nolint:errcheck // into memory
	writePartitions(b, r, top)
	b.WriteString("\nmaintenance\n")
	for _, s := range r.Settings {
		name := s.Setting
		if s.Value != "" {
			name += " = " + s.Value
		}
		fmt.Fprintf(b, "  %s: %s\n", name, s.Text)
	}
	fmt.Fprintf(b, "\nread %s manifest entries, %sB of manifests\n", n(r.Entries), n(r.ManifestBytes))
}

func dangling(c *probe.Counts) string {
	if c.DanglingDeleteFiles == 0 {
		return ""
	}
	return fmt.Sprintf("; %s files touch nothing any more", probe.Short(c.DanglingDeleteFiles))
}

func writePartitions(b *strings.Builder, r *Result, top int) {
	rows := first(r.Partitions, top)
	if len(rows) == 0 {
		return
	}
	n := probe.Short
	b.WriteString("\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "partition\tspec\tunits\tpruned\tof global\teq files\tkeys\tfiles\ttouched\tfanout\tpos files\tvectors")
	for i := range rows {
		p := &rows[i]
		fmt.Fprintln(w, strings.Join([]string{
			label(p), fmt.Sprint(p.SpecID), n(p.Plain.ProbeUnits), n(p.Pruned.ProbeUnits), n(p.GlobalUnits), n(p.EqualityDeleteFiles), n(p.DeleteKeys),
			n(p.DataFiles), n(p.Plain.DataFilesTouched), n(p.Plain.WorstFanout), n(p.PositionDeleteFiles), n(p.DeletionVectors),
		}, "\t"))
	}
	w.Flush() //nolint:errcheck // into memory
	if more := len(r.Partitions) - len(rows); more > 0 {
		fmt.Fprintf(b, "and %d more (--top)\n", more)
	}
}

// label names a row.
func label(p *probe.Partition) string {
	switch {
	case p.Global && p.DataFiles > 0:
		return "(table)"
	case p.Global:
		return "(global deletes)"
	case p.Path == "":
		return "(unpartitioned)"
	}
	return p.Path
}

func trend(t *probe.Trend) string {
	since := "since " + t.Since.Format(time.DateTime)
	switch t.Kind {
	case probe.First:
		return "no run before to compare with"
	case probe.Same:
		return "the same snapshot " + since
	case probe.Diverged:
		return "the snapshot " + since + " is no ancestor any more: a rollback or another history"
	case probe.Recreated:
		return "another table " + since
	case probe.Reset:
		by := ""
		if t.ResetBy != 0 {
			by = fmt.Sprintf(" by snapshot %d (%s) at %s", t.ResetBy, t.ResetOperation, t.ResetAt.Format(time.DateTime))
		}
		return fmt.Sprintf("reset%s: %s probe units, %s keys removed, %s added %s", by, signed(t.ProbeUnits), probe.Short(t.KeysRemoved), probe.Short(t.KeysAdded), since)
	case probe.Grown:
	}
	pace := ""
	if t.ProbeUnitsPerHour != 0 {
		pace = fmt.Sprintf(" (%s an hour)", probe.Short(int64(t.ProbeUnitsPerHour)))
	}
	return fmt.Sprintf("%s probe units%s, %s keys, %s delete files %s; %s", signed(t.ProbeUnits), pace, signed(t.DeleteKeys), signed(t.EqualityDeleteFiles), since, operations(t))
}

func signed(n int64) string {
	if n > 0 {
		return "+" + probe.Short(n)
	}
	return probe.Short(n)
}

func operations(t *probe.Trend) string {
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(t.Operations)) {
		parts = append(parts, fmt.Sprintf("%d %s", t.Operations[op], op))
	}
	text := fmt.Sprintf("%d snapshots (%s)", t.Snapshots, strings.Join(parts, ", "))
	if t.Expired {
		text += ", older ones have expired"
	}
	return text
}
