// Package gauge reports sizes that are looked at when somebody reads the metrics.
package gauge

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Gauge is something that has a size now: how much of a bound is used. It is looked at when the metrics are read.
type Gauge struct {
	// Name, UCUM unit and what it is.
	Name, Unit, What string
	// Label distinguishes the values, by what Values are under; empty: there is one, under "".
	Label string
	// Values answer the present sizes. They may be called at any time, by any goroutine.
	Values map[string]func() int64
}

// One is the Values of a gauge without label.
func One(size func() int64) map[string]func() int64 { return map[string]func() int64{"": size} }

// Register makes a meter report gauges.
func Register(meter metric.Meter, gauges ...Gauge) error {
	var errs []error
	for _, g := range gauges {
		_, err := meter.Int64ObservableGauge(g.Name, metric.WithUnit(g.Unit), metric.WithDescription(g.What),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				for label, size := range g.Values {
					if g.Label == "" {
						o.Observe(size())
						continue
					}
					o.Observe(size(), metric.WithAttributes(attribute.String(g.Label, label)))
				}
				return nil
			}))
		if err != nil {
			errs = append(errs, fmt.Errorf("make gauge %s: %w", g.Name, err))
		}
	}
	return errors.Join(errs...)
}
