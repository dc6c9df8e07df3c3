// Package readers is the command `frazil readers`: which delete format a table needs for the engines that read it.
package readers

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/readers"
	"github.com/frazil-io/frazil/tools/command"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "readers", Summary: "choose the delete format that all declared readers resolve", Run: run}
}

const about = `usage: frazil readers [READER,READER...] [flags]

Answers the cheapest delete format that all readers resolve, and the format version that follows. Exits with 3 and
says who cannot meet whom if there is none. Without readers it prints what is known of all.

`

type options struct {
	catalog, format, overlay string
	allowPreview             bool
}

func run(_ context.Context, args []string, std command.Streams) error {
	var o options
	f := command.NewFlags("readers", about, std)
	f.StringVar(&o.catalog, "catalog", "", "the `KIND` of catalog that all read through: rest, glue, unity ..., or frazil for the gateway")
	f.StringVar(&o.format, "format", "table", "`table` or json")
	f.StringVar(&o.overlay, "matrix", "", "YAML `FILE` that is put over the built-in matrix")
	f.BoolVar(&o.allowPreview, "allow-preview", false, "count what readers have as a preview")
	rest, err := command.Parse(f, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.format != "table" && o.format != "json" {
		return fmt.Errorf("%w: --format is table or json, not %q", command.ErrUsage, o.format)
	}
	matrix, err := Load(o.overlay)
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	names := Names(rest)
	if len(names) == 0 {
		return list(std.Out, matrix, o)
	}
	return choose(std.Out, matrix, names, o)
}

// Names splits arguments at commas and blanks, lower-cased; empty words are dropped.
func Names(args []string) []string {
	return strings.FieldsFunc(strings.ToLower(strings.Join(args, ",")), func(r rune) bool { return r == ',' || r == ' ' })
}

// Load answers the built-in matrix, with the overlay file put over it unless its name is empty. Errors:
// fault.ErrInvalid for bad text, else those of the file system.
func Load(overlay string) (*readers.Matrix, error) {
	matrix, err := readers.Builtin()
	if err != nil || overlay == "" {
		return matrix, err
	}
	text, err := os.ReadFile(overlay)
	if err != nil {
		return nil, fmt.Errorf("read overlay: %w", err)
	}
	over, err := matrix.Overlay(text)
	if err != nil {
		return nil, fmt.Errorf("overlay %s: %w", overlay, err)
	}
	return over, nil
}

func list(out io.Writer, matrix *readers.Matrix, o options) error {
	if o.format == "json" {
		return encode(out, matrix)
	}
	all := make([]string, 0, len(matrix.Readers))
	for i := range matrix.Readers {
		all = append(all, matrix.Readers[i].Name)
	}
	return writeAll(out, []string{support(matrix, all), sources(matrix, all)})
}

func choose(out io.Writer, matrix *readers.Matrix, names []string, o options) error {
	d, err := matrix.Choose(readers.Question{Readers: names, Catalog: o.catalog, AllowPreview: o.allowPreview})
	switch {
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrInvalid):
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	case err != nil:
		return err
	}
	answer := Answer{Decision: d, Matrix: matrix.Version, Dialects: dialects(matrix, d, o)}
	if o.format == "json" {
		err = encode(out, answer)
	} else {
		err = writeAll(out, []string{verdict(&answer), support(matrix, d.Readers), sources(matrix, d.Readers)})
	}
	if err != nil {
		return err
	}
	if refused := d.Err(); refused != nil && len(answer.Dialects) == 0 {
		return fmt.Errorf("%w: %w", command.ErrFound, refused)
	}
	return nil
}

// Answer is what `--format json` prints.
type Answer struct {
	*readers.Decision
	// Dialects are the gateway's warehouse for each reader, when the catalog is the gateway and all have one: served
	// topics need no common format.
	Dialects map[string]string `json:"dialects,omitempty"`
	// Matrix is the version of the data.
	Matrix string `json:"matrix_version"`
}

// dialects answers the warehouse of each reader if the catalog is the gateway; nil if one of them has none.
func dialects(matrix *readers.Matrix, d *readers.Decision, o options) map[string]string {
	if o.catalog != readers.Gateway {
		return nil
	}
	out := map[string]string{}
	for _, name := range d.Readers {
		dialect, err := matrix.Dialect(name, o.allowPreview)
		if err != nil {
			return nil // the refusal says why
		}
		out[name] = dialect
	}
	return out
}

func encode(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func writeAll(out io.Writer, parts []string) error {
	if _, err := io.WriteString(out, strings.Join(parts, "\n")); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
