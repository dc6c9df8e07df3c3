package rowindex

import (
	"fmt"
	"log/slog"
)

// logger passes Pebble's messages on. Its reports about itself are for debugging.
type logger struct{ log *slog.Logger }

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	l.log.Debug("row index", "message", fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.log.Error("row index", "err", fmt.Sprintf(format, args...))
}

// Fatalf is called when Pebble cannot go on: its contract demands that the call does not return.
func (l logger) Fatalf(format string, args ...any) {
	l.log.Error("row index broken", "err", fmt.Sprintf(format, args...))
	panic(fmt.Sprintf("row index broken: "+format, args...))
}
