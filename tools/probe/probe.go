// Package probe is the command `frazil probe`: what equality deletes cost the readers of a table.
package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/probe"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "probe", Summary: "measure what equality deletes cost the readers of a table", Run: prober{now: time.Now}.run}
}

const about = `usage: frazil probe NAMESPACE.TABLE... --catalog-uri URI [flags]

Reads metadata only: no data file is opened. Probe units are delete keys times data files that the delete may touch.
Exits with 3 if --fail-above says so. docs/PROBE.md explains the figures.

`

// prober is the command with what it takes from its surroundings.
type prober struct {
	now func() time.Time
}

type options struct {
	catalog catalogs.Flags
	tables  []string

	ref, format, state, chart, serve string
	top, maxDeletes                  int
	threshold                        int64
	interval                         time.Duration
	limits                           limits
}

// Formats of the output.
const (
	formatTable      = "table"
	formatJSON       = "json"
	formatPrometheus = "prometheus"
)

func parse(args []string, std command.Streams) (*options, error) {
	var o options
	f := command.NewFlags("probe", about, std)
	o.catalog.Register(f)
	f.StringVar(&o.ref, "ref", icebergscan.MainBranch, "`BRANCH` or tag to measure")
	f.StringVar(&o.format, "format", formatTable, "`table`, json or prometheus")
	f.IntVar(&o.top, "top", 10, "how many partitions to print, worst first; 0 = all")
	f.StringVar(&o.state, "state", "", "`FILE` that keeps one line a run, for the trend and the chart")
	f.StringVar(&o.chart, "chart", "", "draw the history in --state as SVG into `FILE`; without a catalog, do nothing else")
	f.StringVar(&o.serve, "serve", "", "stay, measure every --interval and serve /metrics on `HOST:PORT`")
	f.DurationVar(&o.interval, "interval", 5*time.Minute, "how often --serve measures")
	f.Var(&o.limits, "fail-above", "`NAME=NUMBER,...`: exit with 3 if a total is above, as probe_units=20G; may be repeated")
	f.Int64Var(&o.threshold, "delete-file-threshold", 0, "the `NUMBER` that your rewrite_data_files is called with, to say what it takes")
	f.IntVar(&o.maxDeletes, "max-deletes", probe.DefaultMaxDeletes, "how many equality delete files to hold at once; with more, manifests are read again")
	rest, err := command.Parse(f, args)
	if err != nil {
		return nil, err
	}
	o.tables = rest
	return &o, o.check()
}

func (o *options) check() error {
	usage := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{command.ErrUsage}, args...)...)
	}
	switch {
	case len(o.tables) == 0 && o.catalog.Metadata() == "":
		return usage("probe needs a table: NAMESPACE.TABLE")
	case o.catalog.Metadata() != "" && len(o.tables) > 1:
		return usage("--metadata is of one table")
	case o.format != formatTable && o.format != formatJSON && o.format != formatPrometheus:
		return usage("--format is table, json or prometheus, not %q", o.format)
	case o.chart != "" && o.state == "":
		return usage("--chart draws what --state has kept: name the file")
	case o.chart != "" && len(o.tables) > 1:
		return usage("--chart draws one table")
	case o.interval <= 0 || o.top < 0 || o.maxDeletes <= 0 || o.threshold < 0:
		return usage("--interval and --max-deletes must be above 0, --top and --delete-file-threshold not below")
	}
	if len(o.tables) == 0 {
		o.tables = []string{o.catalog.Metadata()}
	}
	return nil
}

func (p prober) run(ctx context.Context, args []string, std command.Streams) error {
	o, err := parse(args, std)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if c, err := o.catalog.Config(); o.chart != "" && err == nil && c.URI == "" && o.catalog.Metadata() == "" {
		return drawOnly(o)
	}
	cat, err := o.catalog.Open(ctx)
	if errors.Is(err, fault.ErrInvalid) {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	if err != nil {
		return err
	}
	defer cat.Close() //nolint:errcheck // nothing was written
	log := slog.New(slog.NewTextHandler(std.Err, nil))
	if o.serve != "" {
		return p.serve(ctx, cat, o, log)
	}
	var found []error
	var results []*Result
	for _, name := range o.tables {
		r, err := p.measure(ctx, cat, name, nil, o, log)
		if err != nil {
			return err
		}
		results = append(results, r)
		found = append(found, o.limits.exceeded(r)...)
	}
	if err := output(std.Out, results, o); err != nil {
		return err
	}
	if o.chart != "" {
		if err := draw(o, log); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %w", command.ErrFound, errors.Join(found...))
	}
	return nil
}

func output(w io.Writer, results []*Result, o *options) error {
	var b strings.Builder
	switch o.format {
	case formatJSON:
		if err := writeJSON(&b, results, o.top); err != nil {
			return err
		}
	case formatPrometheus:
		writeMetrics(&b, samples(results, o.top))
	default:
		for i, r := range results {
			if i > 0 {
				b.WriteString("\n")
			}
			writeText(&b, r, o.top)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Result is what is known of a table after a run. It is what `--format json` prints.
type Result struct {
	*probe.Report
	Trend    probe.Trend   `json:"trend"`
	Settings []probe.Note  `json:"settings"`
	Took     time.Duration `json:"took_ns"`
}

// measure runs once and keeps a line of it. The trend is against the last line, or against before if no lines are
// kept.
func (p prober) measure(ctx context.Context, cat *catalogs.Catalog, name string, before *probe.Record, o *options, log *slog.Logger) (*Result, error) {
	began := p.now()
	t, err := cat.Load(ctx, name)
	if err != nil {
		return nil, err
	}
	head, err := t.Meta.Head(o.ref)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	scan, err := icebergscan.Open(ctx, t.Store, t.Meta, head)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	report, err := probe.Run(ctx, t.Meta, scan, probe.Config{MaxDeletes: o.maxDeletes, Thresholds: probe.ThresholdsFor(t.Meta, o.threshold)})
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	report.Table, report.Ref, report.At = name, o.ref, began.UTC()
	if head != nil {
		report.SnapshotID, report.SequenceNumber, report.SnapshotTime = head.ID, head.SequenceNumber, time.UnixMilli(head.TimestampMs).UTC()
	}
	report.ManifestBytes, report.Entries = scan.Bytes(), scan.EntriesRead()

	out := &Result{Report: report, Settings: probe.Settings(t.Meta, report, o.threshold)}
	if o.state != "" {
		if before, err = last(o.state, name, o.ref, log); err != nil {
			return nil, err
		}
	}
	out.Trend = probe.Compare(before, t.Meta, report)
	if o.state != "" {
		rec := report.Record()
		rec.Reset = out.Trend.Kind == probe.Reset
		if err := keep(o.state, rec); err != nil {
			return nil, err
		}
	}
	out.Took = p.now().Sub(began)
	return out, nil
}
