package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics report what the store does and how full Redis is.
type metrics struct {
	calls, written metric.Int64Counter
	gauges         metric.Registration
}

func newMetrics(meter metric.Meter, s *Store) (*metrics, error) {
	m := &metrics{}
	var errs [5]error
	m.calls, errs[0] = meter.Int64Counter("frazil.dedup.state_calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls of the state store, by operation and outcome: ok, missing, error."))
	m.written, errs[1] = meter.Int64Counter("frazil.dedup.state_written", metric.WithUnit("By"),
		metric.WithDescription("Bytes written to the state store, by kind of value."))
	used, err := meter.Int64ObservableGauge("frazil.dedup.state_used", metric.WithUnit("By"),
		metric.WithDescription("Memory that Redis has allocated, over all masters."))
	errs[2] = err
	limit, err := meter.Int64ObservableGauge("frazil.dedup.state_limit", metric.WithUnit("By"),
		metric.WithDescription("Memory that Redis may allocate, over all masters; 0 = no limit is set."))
	errs[3] = err
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	m.gauges, errs[4] = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if report := s.Report(); report.Masters > 0 {
			o.ObserveInt64(used, report.UsedBytes)
			o.ObserveInt64(limit, report.LimitBytes)
		}
		return nil
	}, used, limit)
	if errs[4] != nil {
		return nil, fmt.Errorf("make instruments: %w", errs[4])
	}
	return m, nil
}

func (m *metrics) close() error { return m.gauges.Unregister() }

// call counts a call by what became of it.
func (m *metrics) call(ctx context.Context, operation string, err error) {
	outcome := "ok"
	switch {
	case errors.Is(err, redis.Nil):
		outcome = "missing"
	case err != nil:
		outcome = "error"
	}
	m.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("operation", operation), attribute.String("outcome", outcome)))
}

// wrote counts bytes by the kind of their key: there are few of them.
func (m *metrics) wrote(ctx context.Context, p place, n int) {
	m.written.Add(ctx, int64(n), metric.WithAttributes(attribute.String("kind", p.kind())))
}
