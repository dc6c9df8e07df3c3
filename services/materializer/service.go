// Package materializer is the service that turns ranges of a log into row groups and key projections. It is
// stateless: what its disk holds can be made again from the log.
package materializer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/blobcache"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/gauge"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/shared"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
	"github.com/frazil-io/frazil/services/materializer/internal/rpc"
	"github.com/frazil-io/frazil/services/materializer/internal/serve"
	"github.com/frazil-io/frazil/services/materializer/internal/stats"
)

// Deps is what a materializer stands on.
type Deps struct {
	Metadata kafkalog.Metadata
	Reader   kafkalog.Reader
	Registry registry.Registry // nil = there is none
	Dedup    dedupv1.DedupServiceClient
	Files    fsys.FS // holds Config.CacheDir
	Logger   *slog.Logger
	Meter    metric.Meter
}

// Service implements materializer.v1 and lifecycle.Part. Its methods may be called once Ready is closed.
type Service struct {
	*rpc.Server
	counters stats.Counters
	memory   *build.Memory
	cache    *blobcache.Cache
	blocks   *serve.Blocks
	files    *serve.Files
	ready    chan struct{}
}

var _ materializerv1.MaterializerServiceServer = (*Service)(nil)

// metaBytes is about what the metadata of one row group takes in memory; an eighth of memory.max_bytes is theirs.
const metaBytes = 24 << 10

// New checks the configuration and takes over the cache directory. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure materializer: %w", err)
	}
	if deps.Metadata == nil || deps.Reader == nil || deps.Dedup == nil || deps.Files == nil || deps.Logger == nil || deps.Meter == nil {
		return nil, errors.New("make materializer: a dependency is missing")
	}
	s := &Service{ready: make(chan struct{})}
	var err error
	s.cache, err = blobcache.Open(deps.Files, blobcache.Config{
		Dir: cfg.CacheDir, MaxBytes: int64(cfg.Cache.MaxBytes), OpenFiles: cfg.Cache.OpenFiles,
	})
	if err != nil {
		return nil, err
	}
	maxBytes := int64(cfg.Memory.MaxBytes)
	s.memory = build.NewMemory(maxBytes - maxBytes/8)
	builder := build.NewBuilder(deps.Reader, deps.Registry, s.memory, &s.counters)
	builds := shared.Limits{Running: cfg.Slots.Work, Waiting: cfg.Slots.Waiting, Timeout: cfg.BuildTimeout}
	s.blocks = serve.NewBlocks(s.cache, builder, s.memory, builds, int(maxBytes/8/metaBytes), &s.counters, deps.Logger)
	// Questions to dedup take no work slot: nothing is held across a call to another service.
	asking := shared.Limits{Running: cfg.Slots.Waiting, Waiting: cfg.Slots.Waiting, Timeout: cfg.Hold}
	s.files = serve.NewFiles(s.blocks, rpc.Describer{Client: deps.Dedup}, serve.Limits{Hold: cfg.Hold, Describing: asking})
	scans := rpc.NewSlots(cfg.Slots.Scan, cfg.Slots.Waiting)
	s.Server = rpc.NewServer(rpc.Parts{Metadata: deps.Metadata, Builder: builder, Blocks: s.blocks, Files: s.files, Scans: scans})
	if err := errors.Join(s.counters.Register(deps.Meter), s.reportBounds(deps.Meter, scans)); err != nil {
		return nil, err
	}
	return s, nil
}

// reportBounds reports how much of each bound is used.
func (s *Service) reportBounds(meter metric.Meter, scans *rpc.Slots) error {
	return gauge.Register(meter,
		gauge.Gauge{Name: "frazil.materializer.cache_bytes", Unit: "By", What: "Bytes that the block cache takes on disk; bound: cache.max_bytes.",
			Values: gauge.One(func() int64 { return s.cache.Stats().Bytes })},
		gauge.Gauge{Name: "frazil.materializer.cache_open_files", Unit: "{file}", What: "Files of the block cache that are open; those that nobody reads are bounded by cache.open_files.",
			Values: gauge.One(func() int64 { return int64(s.cache.Stats().Open) })},
		gauge.Gauge{Name: "frazil.materializer.memory_used", Unit: "By", What: "Bytes of row groups that are being made; bound: seven eighths of memory.max_bytes.",
			Values: gauge.One(s.memory.Used)},
		gauge.Gauge{Name: "frazil.materializer.slots_used", Unit: "{slot}", What: "Work that goes on, by kind: work (slots.work), scan (slots.scan).",
			Label: "kind", Values: map[string]func() int64{"work": s.blocks.Building, "scan": scans.Used}},
		gauge.Gauge{Name: "frazil.materializer.requests_waiting", Unit: "{request}", What: "Requests that wait, by kind: work, scan, and layout for what dedup has recorded; bound of each: slots.waiting.",
			Label: "kind", Values: map[string]func() int64{"work": s.blocks.Waiting, "scan": scans.Waiting, "layout": s.files.Waiting}},
	)
}

// Counters are totals since New.
type Counters struct {
	ScannedEvents, FetchedBytes   int64
	EncodedRowGroups, EncodedRows int64
	CacheHits, CacheMisses        int64 // row groups that a read found, or had to have encoded
	CacheFailures                 int64 // row groups that the disk did not take, or gave back damaged
	CacheBytes                    int64 // on disk now
}

// Counters answers what the metrics report.
func (s *Service) Counters() Counters {
	c := &s.counters
	return Counters{
		c.ScannedEvents.Load(), c.FetchedBytes.Load(), c.EncodedRowGroups.Load(), c.EncodedRows.Load(),
		c.CacheHits.Load(), c.CacheMisses.Load(), c.CacheFailures.Load(), s.cache.Stats().Bytes,
	}
}

// Name implements lifecycle.Part.
func (s *Service) Name() string { return "materializer" }

// Ready implements lifecycle.Part.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, then ends all builds and waits for them. It is called once.
func (s *Service) Run(ctx context.Context) error {
	close(s.ready)
	<-ctx.Done()
	s.files.Close()
	s.blocks.Close()
	return nil
}
