package readers

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/frazil-io/frazil/libs/readers"
)

// verdict is the choice or the refusal.
func verdict(a *Answer) string {
	var b strings.Builder
	switch {
	case a.Choice != nil:
		fmt.Fprintf(&b, "%s, format version %d, for %s\n", a.Choice.Format.Long(), a.Choice.FormatVersion, strings.Join(a.Readers, ", "))
		for _, c := range a.Choice.Conditions {
			fmt.Fprintf(&b, "  %s: %s\n", strings.Join(c.Readers, ", "), explain(c.Need))
		}
	case len(a.Dialects) > 0:
		fmt.Fprintf(&b, "no common format, and none is needed: each reader gets its own dialect\n")
	default:
		fmt.Fprintf(&b, "refused: no delete format for %s\n", strings.Join(a.Readers, ", "))
		for _, p := range a.Refusal.Pairs {
			fmt.Fprintf(&b, "  %s and %s cannot meet\n", p[0], p[1])
		}
		for _, o := range a.Refusal.Obstacles {
			fmt.Fprintf(&b, "  %s\n", o)
		}
	}
	for _, name := range a.Readers {
		if d := a.Dialects[name]; d != "" {
			fmt.Fprintf(&b, "  %s: warehouse %s\n", name, d)
		}
	}
	return b.String()
}

// explain says what a writer must do, as the end of "READER: ".
func explain(n readers.Need) string {
	switch n {
	case readers.SortedPositions:
		return "position delete files must be sorted by path and position, or deleted rows come back"
	case readers.SortedPaths:
		return "position delete files must be sorted by path, or deleted rows come back"
	case readers.PathBounds:
		return "manifests must bound file_path of a delete file to one data file"
	case readers.ExactCardinality:
		return "the record count of a deletion vector must be its cardinality"
	case readers.PuffinFooter:
		return "deletion vectors must lie in complete Puffin files"
	case readers.RecordCount:
		return "delete files must state a record count above 0"
	case readers.OneSpec:
		return "the partition spec must never have changed"
	case readers.OneKey:
		return "all equality deletes must have the same columns"
	case readers.NoGlobalDeletes:
		return "equality deletes must be of a partitioned spec"
	case readers.HonestSummary:
		return "the totals in snapshot summaries must be right"
	case readers.PartitionInKey:
		return "equality deletes must compare the columns that the partition is made of"
	case readers.NoNullPartitions:
		return "no partition value may be null where there are equality deletes"
	case readers.NoNullKeys:
		return "the columns that equality deletes compare must hold no nulls"
	case readers.TopLevelKeys:
		return "the columns that equality deletes compare must not be in a struct"
	case readers.SameKeyTypes:
		return "the columns that equality deletes compare must keep their types"
	}
	return string(n)
}

// support is one line for each reader and its footnotes.
func support(matrix *readers.Matrix, names []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "reader\tequality\tposition\tvector\tversions")
	var notes []string
	for _, name := range names {
		r, err := matrix.Reader(name)
		if err != nil {
			continue // names come from the matrix
		}
		cells := []string{r.Name}
		for _, f := range readers.Formats() {
			c := r.Of(f)
			cell := string(c.Support)
			if c.Support == readers.Yes && c.Since != "" {
				cell += " (" + c.Since + ")"
			}
			if c.Note != "" {
				notes = append(notes, fmt.Sprintf("%s, %s: %s", r.Name, f.Long(), c.Note))
				cell += fmt.Sprintf(" [%d]", len(notes))
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(w, strings.Join(append(cells, r.Versions), "\t"))
	}
	w.Flush() //nolint:errcheck // into memory
	for i, n := range notes {
		fmt.Fprintf(&b, "[%d] %s\n", i+1, n)
	}
	return b.String()
}

// sources lists where the statements about the readers come from, with dates.
func sources(matrix *readers.Matrix, names []string) string {
	var used []string
	for _, name := range names {
		r, err := matrix.Reader(name)
		if err != nil {
			continue // names come from the matrix
		}
		for _, f := range readers.Formats() {
			used = append(used, r.Of(f).Sources...)
		}
	}
	slices.Sort(used)
	var b strings.Builder
	fmt.Fprintf(&b, "sources (matrix of %s)\n", matrix.Version)
	for _, name := range slices.Compact(used) {
		s := matrix.Sources[name]
		fmt.Fprintf(&b, "  %s, %s: %s\n", s.Date, s.Kind, s.Title)
	}
	return b.String()
}
