package catalog

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/gauge"
)

// metrics are the catalog's instruments. Labels are from fixed sets.
type metrics struct {
	loads, advances, renders metric.Int64Counter
}

func newMetrics(meter metric.Meter) (m metrics, err error) {
	counter := func(name, unit, description string) metric.Int64Counter {
		c, e := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		if e != nil && err == nil {
			err = fmt.Errorf("make instrument %s: %w", name, e)
		}
		return c
	}
	m.loads = counter("frazil.catalog.loads", "{load}", "Tables loaded, by result: fresh, stale, unchanged, error.")
	m.advances = counter("frazil.catalog.advances", "{advance}",
		"Cuts asked for, by result: moved, unmoved, stale, new_epoch, error.")
	m.renders = counter("frazil.catalog.metadata_renders", "{object}",
		"Metadata objects rendered, by object: metadata, manifest_list, manifest.")
	return m, err
}

// reportBounds reports how much of each bound is used.
func (s *Service) reportBounds(meter metric.Meter) error {
	return gauge.Register(meter,
		gauge.Gauge{Name: "frazil.catalog.cache_used", Unit: "By", What: "Bytes of rendered metadata and table states in memory; bound: cache.metadata_max_bytes.",
			Values: gauge.One(func() int64 { _, n := s.cache.items.Size(); return n })},
		gauge.Gauge{Name: "frazil.catalog.requests_waiting", Unit: "{request}", What: "Requests that wait, by kind: table, render; bound of each: slots.waiting.",
			Label: "kind", Values: map[string]func() int64{
				"table":  func() int64 { return int64(s.flights.Waiting()) },
				"render": func() int64 { return int64(s.renders.Waiting()) },
			}},
	)
}

func (m metrics) load(ctx context.Context, result string) {
	m.loads.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

func (m metrics) advance(ctx context.Context, result string) {
	m.advances.Add(ctx, 1, metric.WithAttributes(attribute.String("result", result)))
}

func (m metrics) render(ctx context.Context, object string) {
	m.renders.Add(ctx, 1, metric.WithAttributes(attribute.String("object", object)))
}
