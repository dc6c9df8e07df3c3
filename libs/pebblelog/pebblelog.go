// Package pebblelog passes the messages of Pebble on to a slog.Logger.
package pebblelog

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// New makes a logger of a store that messages call what, as "state store". Its reports about itself are for debugging.
func New(log *slog.Logger, what string) pebble.Logger { return logger{log, what} }

type logger struct {
	log  *slog.Logger
	what string
}

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	l.log.Debug(l.what, "message", fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.log.Error(l.what, "err", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot go on: its contract demands that the call does not return.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error(l.what+" broken", "err", fmt.Sprintf(format, args...))
	panic(fmt.Sprintf(l.what+" broken: "+format, args...))
}
