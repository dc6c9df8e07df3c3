// Package drain is the command `frazil drain`: equality deletes of a table that others write become position deletes
// or deletion vectors.
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/rowindex"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "drain", Summary: "turn the equality deletes of a table into position deletes or deletion vectors", Run: drainer{now: time.Now}.run}
}

const about = `usage: frazil drain NAMESPACE.TABLE --catalog-uri URI [flags]

Reads the key columns of the data files that equality deletes may touch, and commits the positions of the rows that
they delete: position delete files in format version 2, deletion vectors in 3. No row that a reader sees changes.
--dry-run prints what would be done and changes nothing. docs/DRAIN.md says what is safe beside it.

`

// drainer is the command with what it takes from its surroundings.
type drainer struct {
	now func() time.Time
}

type options struct {
	catalog catalogs.Flags
	table   string

	branch, target, format, scratch, indexDir string
	dryRun, quiet, noIndex                    bool
	memory                                    config.Size
	retries, workers, mergeFrom               int

	daemon bool
	every  time.Duration
	serve  string
	limits backlog
}

// Formats of the output.
const (
	formatTable = "table"
	formatJSON  = "json"
)

// sizeFlag reads sizes as the configuration does.
type sizeFlag struct{ to *config.Size }

// String implements flag.Value.
func (s sizeFlag) String() string {
	if s.to == nil {
		return ""
	}
	return s.to.String()
}

// Set implements flag.Value.
func (s sizeFlag) Set(text string) error {
	v, err := config.ParseSize(text)
	if err != nil {
		return err
	}
	*s.to = v
	return nil
}

func parse(args []string, std command.Streams) (*options, error) {
	o := options{memory: drain.DefaultMemory}
	f := command.NewFlags("drain", about, std)
	o.catalog.Register(f)
	f.StringVar(&o.branch, "branch", icebergscan.MainBranch, "`BRANCH` to drain, in place")
	f.StringVar(&o.branch, "from-branch", icebergscan.MainBranch, "`BRANCH` to drain; the same as --branch, to go with --to-branch")
	f.StringVar(&o.target, "to-branch", "", "`BRANCH` to move on to what was drained, whose readers never meet an equality delete")
	f.IntVar(&o.mergeFrom, "merge-positions", 0, "merge position deletes, too: of data files with at least `N` files in format version 2, all that are left of version 2 in 3; 0 = do not")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done and the gain in probe units; change nothing")
	f.Var(sizeFlag{&o.memory}, "memory", "how many `BYTES` of delete keys and positions to hold; with more, data is read in several passes")
	f.StringVar(&o.scratch, "scratch", "", "`DIR` for positions that do not fit in memory (default: that of the system)")
	f.StringVar(&o.indexDir, "index-dir", "", "`DIR` of a durable index from keys to rows, made if it is not there: data files are read once, and then only the rows that deletes hit")
	f.BoolVar(&o.noIndex, "no-index", false, "scan the key columns of the data files that deletes may touch; what happens without --index-dir")
	f.IntVar(&o.retries, "retries", drain.DefaultRetries, "how often a batch is tried again when other writers are faster")
	f.IntVar(&o.workers, "workers", 0, "how many data files to read at once (default: one for each core)")
	f.StringVar(&o.format, "format", formatTable, "`table` or json")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	f.BoolVar(&o.daemon, "daemon", false, "stay, look at the backlog --every so often, and drain when it is above a limit; without a limit, whenever there is one")
	f.DurationVar(&o.every, "every", time.Minute, "how often --daemon looks")
	f.StringVar(&o.serve, "serve", "", "serve /metrics and /readyz of --daemon on `HOST:PORT`")
	o.limits.register(f)
	rest, err := command.Parse(f, args)
	if err != nil {
		return nil, err
	}
	return &o, o.check(rest)
}

func (o *options) check(rest []string) error {
	usage := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{command.ErrUsage}, args...)...)
	}
	switch {
	case len(rest) == 0 && o.catalog.Metadata() != "":
		rest = []string{o.catalog.Metadata()}
	case len(rest) != 1:
		return usage("drain takes one table: NAMESPACE.TABLE")
	}
	o.table = rest[0]
	switch {
	case o.catalog.Metadata() != "" && !o.dryRun:
		return usage("--metadata names no catalog to commit to: it goes with --dry-run")
	case o.format != formatTable && o.format != formatJSON:
		return usage("--format is table or json, not %q", o.format)
	case o.memory < 1<<10:
		return usage("--memory of %s is too little", o.memory)
	case o.noIndex && o.indexDir != "":
		return usage("--no-index and --index-dir exclude each other")
	case o.retries < 0 || o.workers < 0 || o.mergeFrom < 0 || o.mergeFrom == 1:
		return usage("--retries and --workers are not below 0, and --merge-positions is 0, or 2 or more")
	case o.target == o.branch:
		return usage("--from-branch and --to-branch are the same")
	case o.daemon && (o.dryRun || o.every <= 0):
		return usage("--daemon does not go with --dry-run, and --every must be above 0")
	case !o.daemon && (o.serve != "" || o.limits.any()):
		return usage("--serve and limits of the backlog go with --daemon")
	}
	return nil
}

// Result is what a run did. It is what `--format json` prints.
type Result struct {
	Table string `json:"table"`
	*drain.Report
	Took time.Duration `json:"took_ns"`
	// Error is what ended the run early; what was committed before it stays.
	Error string `json:"error,omitempty"`
}

// Planned is what `--dry-run --format json` prints.
type Planned struct {
	Table string `json:"table"`
	*drain.Forecast
}

func (d drainer) run(ctx context.Context, args []string, std command.Streams) error {
	o, err := parse(args, std)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	cat, err := o.catalog.Open(ctx)
	if errors.Is(err, fault.ErrInvalid) {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	if err != nil {
		return err
	}
	defer cat.Close() //nolint:errcheck // every commit has been answered
	table := &table{catalog: cat, name: o.table}
	if o.dryRun {
		return o.plan(ctx, table, std)
	}
	if o.daemon {
		return d.stay(ctx, table, o, std)
	}
	return d.once(ctx, table, o, std)
}

func (o *options) plan(ctx context.Context, t *table, std command.Streams) error {
	p, err := drain.Plan(ctx, t, drain.Config{Branch: o.branch, Memory: int64(o.memory)})
	if err != nil {
		return fmt.Errorf("table %s: %w", o.table, err)
	}
	if o.format == formatJSON {
		return printJSON(std.Out, Planned{o.table, p})
	}
	return print(std.Out, forecastText(o.table, p))
}

func (d drainer) once(ctx context.Context, t *table, o *options, std command.Streams) error {
	bar := newProgress(std.Err, d.now, o.quiet)
	log := slog.New(slog.NewTextHandler(bar, nil))
	began := d.now()
	index, err := o.openIndex(ctx, t, log)
	if err != nil {
		return fmt.Errorf("table %s: %w", o.table, err)
	}
	cfg := o.settings(d.now, log, index)
	cfg.Progress = bar.step
	report, err := drain.Run(ctx, t, cfg)
	if index != nil {
		err = errors.Join(err, index.Close())
	}
	bar.end()
	r := Result{Table: o.table, Report: report, Took: d.now().Sub(began)}
	if err != nil {
		err = fmt.Errorf("table %s: %w", o.table, err)
		r.Error = err.Error()
	}
	if o.format == formatJSON {
		return errors.Join(err, printJSON(std.Out, r))
	}
	return errors.Join(err, print(std.Out, resultText(&r)))
}

func (o *options) settings(now func() time.Time, log *slog.Logger, index *rowindex.Index) drain.Config {
	return drain.Config{
		Branch: o.branch, Target: o.target, MergeFrom: o.mergeFrom, Memory: int64(o.memory), Retries: o.retries, Workers: o.workers,
		Scratch: o.scratch, Index: index, Summary: map[string]string{"engine-name": "frazil"}, Log: log, Now: now,
	}
}

// openIndex opens the index of the table; nil if none is wanted.
func (o *options) openIndex(ctx context.Context, t *table, log *slog.Logger) (*rowindex.Index, error) {
	if o.indexDir == "" {
		return nil, nil
	}
	loaded, err := t.Load(ctx)
	if err != nil {
		return nil, err
	}
	return rowindex.Open(rowindex.Config{Dir: o.indexDir, Table: loaded.Meta.UUID, Branch: o.branch, Cache: int64(o.memory) / 4, Log: log})
}

func print(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return print(w, b.String())
}
