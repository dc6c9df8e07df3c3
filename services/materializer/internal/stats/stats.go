// Package stats counts what a materializer does.
package stats

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
)

// Counters are totals since the start of the process. Safe for concurrent use.
type Counters struct {
	ScannedEvents    atomic.Int64 // events whose key projection was streamed
	FetchedBytes     atomic.Int64 // of record batches, as they came from the broker
	EncodedRowGroups atomic.Int64 // row groups with rows that were encoded, again or for the first time
	EncodedRows      atomic.Int64
	CacheHits        atomic.Int64 // row groups that a request found encoded
	CacheMisses      atomic.Int64 // row groups that a request had to have encoded
	CacheFailures    atomic.Int64 // encoded row groups that the disk did not take or gave back damaged
}

// Register reports the counters to meter.
func (c *Counters) Register(meter metric.Meter) error {
	type total struct {
		name, unit, what string
		value            *atomic.Int64
	}
	totals := []total{
		{"frazil.materializer.scanned_events", "{event}", "Events whose key projection was streamed.", &c.ScannedEvents},
		{"frazil.materializer.fetched_bytes", "By", "Bytes of record batches fetched from Kafka.", &c.FetchedBytes},
		{"frazil.materializer.encoded_row_groups", "{row_group}", "Row groups encoded.", &c.EncodedRowGroups},
		{"frazil.materializer.encoded_rows", "{row}", "Rows encoded.", &c.EncodedRows},
		{"frazil.materializer.cache_hits", "{row_group}", "Row groups found in the block cache.", &c.CacheHits},
		{"frazil.materializer.cache_misses", "{row_group}", "Row groups not found in the block cache.", &c.CacheMisses},
		{"frazil.materializer.cache_failures", "{row_group}", "Row groups that the block cache could not store or gave back damaged.", &c.CacheFailures},
	}
	for _, t := range totals {
		_, err := meter.Int64ObservableCounter(t.name, metric.WithUnit(t.unit), metric.WithDescription(t.what),
			metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
				o.Observe(t.value.Load())
				return nil
			}))
		if err != nil {
			return fmt.Errorf("register %s: %w", t.name, err)
		}
	}
	return nil
}
