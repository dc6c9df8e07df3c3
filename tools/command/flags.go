package command

import (
	"errors"
	"flag"
	"fmt"
)

// ErrFound is wrapped by a command that ran well and found what it was asked to object to: a threshold exceeded, a
// table that a reader cannot read. The binary exits with 3 instead of 1, so that a job can tell a finding from a
// catalog that was away.
var ErrFound = errors.New("found")

// NewFlags makes the flags of a command. -h prints about, which begins with "usage:" and ends in an empty line, and
// then the flags.
func NewFlags(name, about string, std Streams) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(std.Err)
	f.Usage = func() {
		fmt.Fprint(std.Err, about) //nolint:errcheck // a terminal that is gone
		f.PrintDefaults()
	}
	return f
}

// Parse reads flags that may stand before, between and after the other arguments, and answers the others in order.
// Everything after "--" is an other argument. Errors: flag.ErrHelp after -h, else ErrUsage.
func Parse(f *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		err := f.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrUsage, err)
		case f.NArg() == 0:
			return rest, nil
		}
		// Parse stops at the first argument that is no flag, or after "--".
		used := len(args) - f.NArg()
		if used > 0 && args[used-1] == "--" {
			return append(rest, f.Args()...), nil
		}
		rest = append(rest, f.Arg(0))
		args = f.Args()[1:]
	}
}
