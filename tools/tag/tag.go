// Package tag is the command `frazil tag`: names for snapshots that are to be kept. It speaks to the REST catalog, as
// any Iceberg client that sets snapshot refs does.
package tag

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/internal/gateway"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "tag", Summary: "set, remove or list the tags that keep snapshots of a table", Run: run}
}

const about = `usage: frazil tag set    TABLE NAME [--snapshot ID] [flags]
       frazil tag remove TABLE NAME [flags]
       frazil tag list   TABLE [flags]

A tag keeps its snapshot readable, however old it gets: until it is removed, or until the topic loses rows that the
snapshot shows. Engines read it by name. set moves a tag that is there already.

`

type options struct {
	catalog  gateway.Flags
	format   string
	snapshot int64
}

func run(ctx context.Context, args []string, std command.Streams) error {
	var o options
	f := command.NewFlags("tag", about, std)
	o.catalog.Register(f, "tags are")
	f.StringVar(&o.format, "format", "table", "of list: `table` or json")
	f.Int64Var(&o.snapshot, "snapshot", 0, "`ID` of the snapshot to tag (default: the current one)")
	rest, err := command.Parse(f, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("%w: --format is table or json, not %q", command.ErrUsage, o.format)
	}
	want := map[string]int{"set": 3, "remove": 3, "list": 2}
	if len(rest) == 0 || want[rest[0]] != len(rest) {
		f.Usage()
		return fmt.Errorf("%w: tag set TABLE NAME, tag remove TABLE NAME or tag list TABLE", command.ErrUsage)
	}
	c, err := o.catalog.Open(std.In)
	if err != nil {
		return err
	}
	t, err := load(ctx, c, rest[1])
	if err != nil {
		return err
	}
	switch rest[0] {
	case "set":
		return set(ctx, c, t, rest[2], o.snapshot, std.Out)
	case "remove":
		return remove(ctx, c, t, rest[2], std.Out)
	}
	return list(std.Out, t, o.format)
}

func set(ctx context.Context, c *gateway.Client, t *table, name string, snapshot int64, out io.Writer) error {
	if snapshot == 0 {
		snapshot = t.Metadata.Current
	}
	if err := commit(ctx, c, t, name, map[string]any{
		"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot,
	}); err != nil {
		return fmt.Errorf("set tag %s: %w", name, err)
	}
	_, err := fmt.Fprintf(out, "%s is snapshot %d of %s\n", name, snapshot, t.name)
	return err
}

func remove(ctx context.Context, c *gateway.Client, t *table, name string, out io.Writer) error {
	if t.Metadata.Refs[name].Type != "tag" {
		return fmt.Errorf("remove tag %s: table %s has no such tag", name, t.name)
	}
	if err := commit(ctx, c, t, name, map[string]any{"action": "remove-snapshot-ref", "ref-name": name}); err != nil {
		return fmt.Errorf("remove tag %s: %w", name, err)
	}
	_, err := fmt.Fprintf(out, "%s is no tag of %s any more\n", name, t.name)
	return err
}

// line is a tag as list prints it.
type line struct {
	Name     string    `json:"name"`
	Snapshot int64     `json:"snapshot_id"`
	Time     time.Time `json:"time"`
}

func list(out io.Writer, t *table, format string) error {
	lines := []line{}
	for name, ref := range t.Metadata.Refs {
		if ref.Type != "tag" {
			continue
		}
		l := line{Name: name, Snapshot: ref.Snapshot}
		for _, s := range t.Metadata.Snapshots {
			if s.ID == ref.Snapshot {
				l.Time = time.UnixMilli(s.TimeMs).UTC()
			}
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Name, b.Name) })
	if format == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(lines)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TAG\tSNAPSHOT\tTIME") //nolint:errcheck // Flush reports it
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%d\t%s\n", l.Name, l.Snapshot, l.Time.Format(time.RFC3339)) //nolint:errcheck // Flush reports it
	}
	return w.Flush()
}
