// Package command says what a sub-command of the frazil binary is.
package command

import (
	"context"
	"errors"
	"io"
)

// ErrUsage is wrapped by a command that was called wrongly: the binary exits with 2 instead of 1.
var ErrUsage = errors.New("usage")

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command is one sub-command.
type Command struct {
	// Name is the word on the command line.
	Name string
	// Summary is one line for the overview, without a full stop.
	Summary string
	// Run gets the arguments after the name. Its error is printed by the caller.
	Run func(ctx context.Context, args []string, std Streams) error
}
