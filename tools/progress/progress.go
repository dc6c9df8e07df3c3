// Package progress is the command `frazil progress`: how far a table's history was read. It asks the REST catalog.
package progress

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"time"

	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/internal/gateway"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "progress", Summary: "show how far the history of a table was read", Run: run}
}

const about = `usage: frazil progress TABLE [--watch] [flags]

An eager table reads all of its topic before its first snapshot; a lazy one as far down as queries go. --watch follows
until nothing is being read for anybody: a bar with the rate and the time that is left.

`

// timeout of one look.
const timeout = 30 * time.Second

type options struct {
	catalog gateway.Flags
	format  string
	watch   bool
	every   time.Duration
}

// report is what the catalog answers.
type report struct {
	Table      string `json:"table"`
	Topic      string `json:"topic"`
	StateEpoch string `json:"state-epoch"`
	Plan       string `json:"plan"`
	Partitions int    `json:"partitions"`
	Offsets    int64  `json:"offsets"`
	Read       int64  `json:"offsets-read"`
	Wanted     int64  `json:"offsets-wanted"`
	Walks      []walk `json:"walks"`
}

type walk struct {
	Partition int   `json:"partition"`
	Start     int64 `json:"start"`
	Frontier  int64 `json:"frontier"`
	End       int64 `json:"end"`
	Wanted    int64 `json:"wanted"`
}

func run(ctx context.Context, args []string, std command.Streams) error {
	var o options
	f := command.NewFlags("progress", about, std)
	o.catalog.Register(f, "the progress is")
	f.StringVar(&o.format, "format", "table", "`table` or json")
	f.BoolVar(&o.watch, "watch", false, "follow until nothing is being read")
	f.DurationVar(&o.every, "every", time.Second, "how often --watch looks")
	rest, err := command.Parse(f, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case len(rest) != 1:
		f.Usage()
		return fmt.Errorf("%w: progress TABLE", command.ErrUsage)
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("%w: --format is table or json, not %q", command.ErrUsage, o.format)
	case o.every <= 0:
		return fmt.Errorf("%w: --every must be above 0", command.ErrUsage)
	}
	c, err := o.catalog.Open(std.In)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (r report, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		err = c.Table(ctx, http.MethodGet, rest[0], "/progress", nil, &r)
		return r, err
	}
	r, err := ask(ctx)
	if err != nil {
		return fmt.Errorf("progress of table %s: %w", rest[0], err)
	}
	if o.watch {
		return watch(ctx, std.Out, r, o.every, ask)
	}
	return show(std.Out, r, o.format)
}
