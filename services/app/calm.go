package app

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// calm is a slog.Handler that says the same message at most once per interval: the Kafka client warns at every attempt
// to reach a broker, several times a second.
type calm struct {
	slog.Handler
	every time.Duration
	said  *said // shared by all handlers that descend from one
}

type said struct {
	mu sync.Mutex
	at map[string]time.Time // by message; messages are constant, so there are few
}

func newCalm(h slog.Handler, every time.Duration) slog.Handler {
	return &calm{Handler: h, every: every, said: &said{at: make(map[string]time.Time)}}
}

// Handle implements slog.Handler.
func (c *calm) Handle(ctx context.Context, r slog.Record) error {
	c.said.mu.Lock()
	last, known := c.said.at[r.Message]
	again := known && r.Time.Sub(last) < c.every
	if !again {
		c.said.at[r.Message] = r.Time
	}
	c.said.mu.Unlock()
	if again {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c *calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &calm{Handler: c.Handler.WithAttrs(attrs), every: c.every, said: c.said}
}

// WithGroup implements slog.Handler.
func (c *calm) WithGroup(name string) slog.Handler {
	return &calm{Handler: c.Handler.WithGroup(name), every: c.every, said: c.said}
}
