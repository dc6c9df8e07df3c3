// Package inspect is the command `frazil inspect`: what the name of an object says. It reads nothing but the name.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/tools/command"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "inspect", Summary: "say what an object's key or s3:// URI means, as JSON", Run: run}
}

func run(_ context.Context, args []string, std command.Streams) error {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(std.Err)
	flags.Usage = func() { usage(std.Err) }
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	case flags.NArg() == 0:
		usage(std.Err)
		return fmt.Errorf("%w: inspect needs at least one key", command.ErrUsage)
	}
	enc := json.NewEncoder(std.Out)
	enc.SetIndent("", "  ")
	for _, arg := range flags.Args() {
		about, err := describe(arg)
		if err != nil {
			return fmt.Errorf("inspect %s: %w", arg, err)
		}
		if err := enc.Encode(about); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: frazil inspect KEY|s3://BUCKET/KEY ...") //nolint:errcheck // a terminal that is gone
}

// About is what a name says. Absent fields do not apply to the kind.
type About struct {
	Kind       string `json:"kind"` // data file, deletes or metadata
	Table      string `json:"table"`
	StateEpoch string `json:"state_epoch"`
	View       string `json:"view"`
	Dialect    string `json:"dialect,omitempty"`
	File       string `json:"file,omitempty"`
	Data       *Data  `json:"data,omitempty"`
	// E of a delete file: it holds the events whose superseding offset is below it.
	E *int64 `json:"superseded_before,omitempty"`
}

// Data is what the name of a data file says.
type Data struct {
	Partition    int32  `json:"kafka_partition"`
	Start        int64  `json:"start"` // offsets [start, end)
	End          int64  `json:"end"`
	Edition      int    `json:"edition"`
	BlockOffsets int64  `json:"block_offsets"`
	FileSchema   string `json:"file_schema"`
	Encoding     string `json:"encoding_id"`
	SizeBytes    int64  `json:"declared_size_bytes"`
}

func describe(arg string) (About, error) {
	key := arg
	if rest, ok := strings.CutPrefix(arg, "s3://"); ok {
		if _, key, ok = strings.Cut(rest, "/"); !ok {
			return About{}, errors.New("no key after the bucket")
		}
		if unescaped, err := url.PathUnescape(key); err == nil {
			key = unescaped
		}
	}
	obj, err := objectname.Parse(key)
	if err != nil {
		return About{}, err
	}
	table := obj.Of()
	about := About{Table: table.Name, StateEpoch: table.Epoch}
	switch o := obj.(type) {
	case objectname.DataFile:
		about.Kind, about.View, about.Data = "data file", o.View, dataOf(o)
	case objectname.Deletes:
		e := int64(o.E)
		about.Kind, about.View, about.Dialect, about.Data, about.E = "deletes", o.Data.View, o.Dialect, dataOf(o.Data), &e
	case objectname.Metadata:
		about.Kind, about.View, about.Dialect, about.File = "metadata", o.View, o.Dialect, o.File
	}
	return about, nil
}

func dataOf(d objectname.DataFile) *Data {
	return &Data{
		Partition:    int32(d.Partition),
		Start:        int64(d.Range.Start),
		End:          int64(d.Range.End),
		Edition:      d.Edition,
		BlockOffsets: 1 << d.BlockLog2,
		FileSchema:   d.FileSchema,
		Encoding:     d.Encoding,
		SizeBytes:    d.Size,
	}
}
