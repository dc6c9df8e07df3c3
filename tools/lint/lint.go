// Package lint is the command `frazil lint`: what in a table a declared reader cannot read, and what goes wrong in
// some engine without an error.
package lint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/lint"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
	"github.com/frazil-io/frazil/tools/readers"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "lint", Summary: "find what the declared readers of a table cannot read", Run: run}
}

const about = `usage: frazil lint NAMESPACE.TABLE... --readers READER,... --catalog-uri URI [flags]

Checks the table as it is. Reads metadata only, unless --open-deletes. Exits with 3 if there is an error (--strict:
or a warning). docs/LINT.md lists the checks.

`

type options struct {
	catalog                           catalogs.Flags
	tables                            []string
	readers, matrix, ref, format      string
	allowPreview, openDeletes, strict bool
	maxFiles                          int
}

func parse(args []string, std command.Streams) (*options, error) {
	var o options
	f := command.NewFlags("lint", about, std)
	o.catalog.Register(f)
	f.StringVar(&o.readers, "readers", "", "`READER,...` who must be able to read the table")
	f.StringVar(&o.matrix, "matrix", "", "YAML `FILE` that is put over the built-in matrix of readers")
	f.BoolVar(&o.allowPreview, "allow-preview", false, "count what readers have as a preview")
	f.BoolVar(&o.openDeletes, "open-deletes", false, "open position delete files and deletion vectors: order, counts, checksums, paths")
	f.StringVar(&o.ref, "ref", icebergscan.MainBranch, "`BRANCH` or tag to check")
	f.StringVar(&o.format, "format", "table", "`table` or json")
	f.IntVar(&o.maxFiles, "max-files", 5, "how many files to name in a finding; 0 = all")
	f.BoolVar(&o.strict, "strict", false, "exit with 3 for warnings, too")
	rest, err := command.Parse(f, args)
	if err != nil {
		return nil, err
	}
	o.tables = rest
	switch {
	case len(rest) == 0 && o.catalog.Metadata() == "":
		return nil, fmt.Errorf("%w: lint needs a table: NAMESPACE.TABLE", command.ErrUsage)
	case len(rest) > 1 && o.catalog.Metadata() != "":
		return nil, fmt.Errorf("%w: --metadata is of one table", command.ErrUsage)
	case o.format != "table" && o.format != "json":
		return nil, fmt.Errorf("%w: --format is table or json, not %q", command.ErrUsage, o.format)
	case o.maxFiles < 0:
		return nil, fmt.Errorf("%w: --max-files is not below 0", command.ErrUsage)
	case len(rest) == 0:
		o.tables = []string{o.catalog.Metadata()}
	}
	return &o, nil
}

func run(ctx context.Context, args []string, std command.Streams) error {
	o, err := parse(args, std)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	cfg, err := o.config()
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	cat, err := o.catalog.Open(ctx)
	if errors.Is(err, fault.ErrInvalid) {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	if err != nil {
		return err
	}
	defer cat.Close() //nolint:errcheck // nothing was written
	var bad []error
	for _, name := range o.tables {
		r, err := check(ctx, cat, name, o, cfg)
		if err != nil {
			return err
		}
		if err := output(std.Out, r, o); err != nil {
			return err
		}
		if n := r.Errors; n > 0 || o.strict && r.Warnings > 0 {
			bad = append(bad, fmt.Errorf("table %s: %d errors, %d warnings", name, n, r.Warnings))
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w: %w", command.ErrFound, errors.Join(bad...))
	}
	return nil
}

func (o *options) config() (lint.Config, error) {
	cfg := lint.Config{AllowPreview: o.allowPreview, MaxFiles: o.maxFiles}
	matrix, err := readers.Load(o.matrix)
	if err != nil {
		return cfg, err
	}
	for _, name := range readers.Names([]string{o.readers}) {
		r, err := matrix.Reader(name)
		if err != nil {
			return cfg, err
		}
		if !slices.Contains(cfg.Readers, r) {
			cfg.Readers = append(cfg.Readers, r)
		}
	}
	return cfg, nil
}

// Result is what `--format json` prints for a table.
type Result struct {
	Table         string         `json:"table"`
	Ref           string         `json:"ref"`
	SnapshotID    int64          `json:"snapshot_id"`
	FormatVersion int            `json:"format_version"`
	Readers       []string       `json:"readers"`
	Opened        int            `json:"delete_files_opened"`
	Errors        int            `json:"errors"`
	Warnings      int            `json:"warnings"`
	Findings      []lint.Finding `json:"findings"`
}

func check(ctx context.Context, cat *catalogs.Catalog, name string, o *options, cfg lint.Config) (*Result, error) {
	t, err := cat.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	head, err := t.Meta.Head(o.ref)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	out := &Result{Table: name, Ref: o.ref, FormatVersion: t.Meta.FormatVersion, Readers: []string{}, Findings: []lint.Finding{}}
	for _, r := range cfg.Readers {
		out.Readers = append(out.Readers, r.Name)
	}
	if head != nil {
		out.SnapshotID = head.ID
	}
	scan, err := icebergscan.Open(ctx, t.Store, t.Meta, head)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	found, kept, err := lint.Run(ctx, t.Meta, head, scan, cfg)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	if o.openDeletes {
		inside, err := lint.OpenDeletes(ctx, t.Store, kept, cfg)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		out.Opened = kept.Count()
		found = append(found, inside...)
		slices.SortStableFunc(found, func(a, b lint.Finding) int { return cmp.Compare(a.Severity.Rank(), b.Severity.Rank()) })
	}
	for _, f := range found {
		switch f.Severity {
		case lint.Error:
			out.Errors++
		case lint.Warning:
			out.Warnings++
		case lint.Note:
		}
	}
	out.Findings = append(out.Findings, found...)
	return out, nil
}

func output(w io.Writer, r *Result, o *options) error {
	var b strings.Builder
	if o.format == "json" {
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	} else {
		text(&b, r, o)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func text(b *strings.Builder, r *Result, o *options) {
	fmt.Fprintf(b, "%s, %s: snapshot %d, format version %d", r.Table, r.Ref, r.SnapshotID, r.FormatVersion)
	if len(r.Readers) > 0 {
		fmt.Fprintf(b, ", for %s", strings.Join(r.Readers, ", "))
	}
	b.WriteString("\n")
	for _, f := range r.Findings {
		fmt.Fprintf(b, "\n%s  %s", f.Severity, f.Check)
		if len(f.Readers) > 0 {
			fmt.Fprintf(b, "  [%s]", strings.Join(f.Readers, ", "))
		}
		fmt.Fprintf(b, "\n  %s\n", f.Text)
		for _, path := range f.Files {
			fmt.Fprintf(b, "    %s\n", path)
		}
		if more := f.Count - int64(len(f.Files)); more > 0 {
			fmt.Fprintf(b, "    and %d more (--max-files)\n", more)
		}
	}
	if len(r.Findings) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "%d errors, %d warnings", r.Errors, r.Warnings)
	if !o.openDeletes {
		b.WriteString("; delete files were not opened (--open-deletes)")
	}
	b.WriteString("\n")
}
