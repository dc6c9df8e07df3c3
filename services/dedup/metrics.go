package dedup

import (
	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/gauge"
)

// reportBounds reports how much of each bound is used, and how much is left to walk.
func (s *Service) reportBounds(meter metric.Meter) error {
	return gauge.Register(meter,
		gauge.Gauge{Name: "frazil.dedup.slots_used", Unit: "{slot}", What: "Ranges that are worked on, by kind: increment, walk; bound of each: dedup.parallel.",
			Label: "kind", Values: map[string]func() int64{
				"increment": func() int64 { return int64(len(s.slots)) },
				"walk":      func() int64 { return int64(len(s.walks)) },
			}},
		gauge.Gauge{Name: "frazil.dedup.requests_waiting", Unit: "{request}", What: "Requests that wait, by kind: table, walk; bound of each: slots.waiting.",
			Label: "kind", Values: map[string]func() int64{
				"table": func() int64 { return int64(s.flights.Waiting()) },
				"walk":  func() int64 { return int64(s.descents.waiters()) },
			}},
		gauge.Gauge{Name: "frazil.dedup.cache_used", Unit: "By", What: "Bytes in memory, by cache: state (a quarter of memory.max_bytes), deletes and filters of runs (an eighth each).",
			Label: "cache", Values: map[string]func() int64{
				"state": s.store.CacheBytes, "deletes": s.deletes.CacheBytes, "filters": s.planner.Runs.FilterBytes,
			}},
		gauge.Gauge{Name: "frazil.dedup.run_files_open", Unit: "{file}", What: "Run files that are open; those that nobody uses are bounded by dedup.open_runs.",
			Values: gauge.One(func() int64 { return int64(s.planner.Runs.OpenFiles()) })},
		gauge.Gauge{Name: "frazil.dedup.walk_offsets_wanted", Unit: "{offset}", What: "Offsets of lazy tables that readers wait for and that are not read yet.",
			Values: gauge.One(s.descents.remaining)},
	)
}
