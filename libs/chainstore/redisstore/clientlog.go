package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends what the client library prints to log, for debugging: its calls return the same errors. The library has
// one logger for the process, so only a program calls this, before it opens a store.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf implements the library's interface.
func (l clientLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}
