package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/readers"
)

// declared checks what each declared reader can do with the table as it is.
func (r *run) declared() {
	for _, d := range r.cfg.Readers {
		name := []string{d.Name}
		if len(d.FormatVersions) > 0 && !slices.Contains(d.FormatVersions, r.table.FormatVersion) {
			r.found.add("format-version", Error, name, fmt.Sprintf("%s does not read tables of format version %d", d.Name, r.table.FormatVersion), "")
		}
		r.fileFormats(d)
		for _, f := range readers.Formats() {
			s := r.of(f)
			if s.n == 0 {
				continue
			}
			c := d.Of(f)
			broken := r.broken(c.Needs)
			resolves := c.Support.Resolves(r.cfg.AllowPreview) || c.Support == readers.Partial && len(broken) == 0 && len(c.Needs) > 0
			if !resolves {
				r.all(s, "unread-"+f.String(), Error, name, unread(d, f, c))
				continue
			}
			for _, n := range broken {
				r.needs(d.Name, f, n)
			}
		}
	}
}

// fileFormats checks the formats of data files.
func (r *run) fileFormats(d *readers.Reader) {
	if len(d.FileFormats) == 0 {
		return
	}
	for _, format := range slices.Sorted(maps.Keys(r.formats)) {
		if !slices.Contains(d.FileFormats, format) {
			r.all(r.formats[format], "file-format", Error, []string{d.Name}, fmt.Sprintf("%s does not read data files in %s", d.Name, strings.ToUpper(format)))
		}
	}
}

func unread(d *readers.Reader, f readers.Format, c *readers.Capability) string {
	text := fmt.Sprintf("%s does not resolve %s", d.Name, f.Long())
	switch c.Support {
	case readers.Wrong:
		text = fmt.Sprintf("%s ignores %s without an error: deleted rows come back", d.Name, f.Long())
	case readers.Unknown:
		text = fmt.Sprintf("it was not verified that %s resolves %s", d.Name, f.Long())
	case readers.Preview:
		text = fmt.Sprintf("%s resolves %s as a preview only", d.Name, f.Long())
	case readers.Partial:
		text = fmt.Sprintf("%s resolves only some %s", d.Name, f.Long())
	case readers.Yes, readers.No:
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

func (r *run) of(f readers.Format) *sample {
	switch f {
	case readers.Equality:
		return &r.equality
	case readers.Position:
		return &r.positions
	case readers.DeletionVector:
	}
	return &r.vectors
}

// all adds a finding for all files of a sample: its count is theirs, and the first of them are named.
func (r *run) all(s *sample, check string, severity Severity, names []string, text string) {
	for _, f := range s.files {
		r.found.add(check, severity, names, text, f).Count = s.n
	}
}

// broken answers the needs that the metadata shows to be violated.
func (r *run) broken(needs []readers.Need) []readers.Need {
	var out []readers.Need
	for _, n := range needs {
		if r.violated(n) {
			out = append(out, n)
		}
	}
	return out
}

func (r *run) violated(n readers.Need) bool {
	switch n {
	case readers.PathBounds:
		return r.noBounds.n > 0
	case readers.RecordCount:
		return r.zeroDeletes.n > 0
	case readers.OneSpec:
		return len(r.specs) > 1
	case readers.OneKey:
		return len(r.keys) > 1
	case readers.NoGlobalDeletes:
		return r.global.n > 0
	case readers.HonestSummary:
		return slices.ContainsFunc(r.found.items, func(f *Finding) bool { return f.Check == "summary-lies" })
	case readers.PartitionInKey:
		return r.leaking.n > 0
	case readers.NoNullPartitions:
		return r.nullPartitions.n > 0
	case readers.NoNullKeys:
		return r.nullKeys.n > 0
	case readers.TopLevelKeys:
		return r.nestedKeys.n > 0
	case readers.SameKeyTypes:
		return r.widenedKeys.n > 0
	case readers.SortedPositions, readers.SortedPaths, readers.ExactCardinality, readers.PuffinFooter:
		return false // only OpenDeletes can see it
	}
	return false
}

// needs adds the finding of a violated need.
func (r *run) needs(name string, f readers.Format, n readers.Need) {
	names := []string{name}
	check := "need-" + string(n)
	switch n {
	case readers.PathBounds:
		r.all(&r.noBounds, check, Warning, names, name+" needs equal bounds of file_path: its native reader refuses these position delete files or falls back")
	case readers.RecordCount:
		r.all(&r.zeroDeletes, check, Error, names, name+" skips delete files that state 0 rows")
	case readers.OneSpec:
		r.found.add(check, Error, names, fmt.Sprintf("%s does not read %s in a table whose partition spec has changed: live files have %d specs", name, f.Long(), len(r.specs)), "")
	case readers.OneKey:
		r.found.add(check, Error, names, fmt.Sprintf("%s reads equality deletes on one set of columns only: there are %d", name, len(r.keys)), "")
	case readers.NoGlobalDeletes:
		r.all(&r.global, check, Error, names, name+" skips equality deletes of an unpartitioned spec")
	case readers.HonestSummary:
		r.found.add(check, Error, names, name+" answers count(*) from the snapshot summary, which is wrong", "")
	case readers.PartitionInKey:
		r.all(&r.leaking, check, Error, names, name+" applies equality deletes to other partitions too: rows get lost if a key is in several partitions")
	case readers.NoNullPartitions:
		r.all(&r.nullPartitions, check, Error, names, name+" fails in a table with equality deletes when a partition value is null")
	case readers.NoNullKeys:
		r.all(&r.nullKeys, check, Error, names, name+" loses rows when columns that equality deletes compare hold nulls")
	case readers.TopLevelKeys:
		r.all(&r.nestedKeys, check, Error, names, name+" does not find the columns of equality deletes in a struct")
	case readers.SameKeyTypes:
		r.all(&r.widenedKeys, check, Error, names, name+" fails when a column that equality deletes compare had another type before")
	case readers.SortedPositions, readers.SortedPaths, readers.ExactCardinality, readers.PuffinFooter:
	}
}

// summary holds the totals of the snapshot's summary against the manifests. Doris answers count(*) from them.
func (r *run) summary(s *icebergscan.Snapshot) {
	a := &r.actual
	for _, c := range []struct {
		key  string
		want int64
	}{
		{"total-data-files", a.dataFiles}, {"total-records", a.records}, {"total-delete-files", a.deleteFiles},
		{"total-position-deletes", a.positions}, {"total-equality-deletes", a.keys}, {"total-files-size", a.size},
	} {
		text, ok := s.Summary[c.key]
		if !ok {
			r.found.add("summary-incomplete", Note, nil, "the snapshot summary lacks "+c.key+": older versions of Doris fail without it", "")
			continue
		}
		got, err := strconv.ParseInt(text, 10, 64)
		if c.key == "total-files-size" && got == a.content {
			continue
		}
		if err != nil || got != c.want {
			r.found.add("summary-lies", Warning, nil, fmt.Sprintf("the snapshot summary says %s = %s, the manifests say %d", c.key, text, c.want), "")
		}
	}
}
