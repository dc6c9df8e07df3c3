package dedup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/shared"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/advance"
	"github.com/frazil-io/frazil/services/dedup/internal/collect"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/render"
	"github.com/frazil-io/frazil/services/dedup/internal/runs"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Deps is what the service stands on.
type Deps struct {
	Store        chainstore.Store
	FS           fsys.FS // of the run directory
	Materializer materializerv1.MaterializerServiceClient
	Clock        func() time.Time
	Random       io.Reader // of state epochs and keys: unpredictable
	Log          *slog.Logger
	Meter        metric.Meter
}

// Service is the dedup service. Its state lies in the store; what it holds in memory can be lost.
type Service struct {
	dedupv1.UnimplementedDedupServiceServer

	cfg     Config
	deps    Deps
	store   *state.Store
	planner *advance.Planner
	cuts    *publish.Publisher
	deletes *render.Renderer
	garbage *collect.Collector
	flights *shared.Group[kafkapos.TopicID, outcome]
	// descents are the walks that readers of lazy tables ask for; recording is what their files need beside.
	descents  *descents
	recording *shared.Group[string, struct{}]
	// slots and walks are the ranges of increments, and of first walks, that are worked on at once: a table whose
	// first walk takes hours does not keep others from being up to date.
	slots, walks chan struct{}
	tidy         chan state.Log // logs with runs to merge
	ready        chan struct{}

	mu     sync.Mutex
	tables map[kafkapos.TopicID]*table
}

// New checks the configuration and prepares the service. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if _, err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure dedup: %w", err)
	}
	metrics, err := advance.NewMetrics(deps.Meter)
	if err != nil {
		return nil, err
	}
	dir, err := runs.Open(deps.FS, cfg.RunDir, cfg.OpenRuns, cfg.RunFilterBytes)
	if err != nil {
		return nil, err
	}
	store := state.NewStore(deps.Store, cfg.StateCacheBytes)
	s := &Service{
		cfg: cfg, deps: deps, store: store,
		planner: &advance.Planner{Store: store, Runs: dir, Materializer: deps.Materializer, Metrics: metrics},
		cuts: &publish.Publisher{
			Store: store, Now: deps.Clock, ChunksPerGroup: int64(cfg.ChunksPerGroup),
			Retention: publish.Retention{Keep: cfg.Snapshots.Retention, Dense: cfg.Snapshots.Dense, Every: cfg.Snapshots.Every},
		},
		deletes: render.New(store, cfg.Bucket, cfg.DeleteCacheBytes, cfg.Parallel),
		garbage: collect.New(store, dir, cfg.Snapshots.Retention, deps.Clock),
		flights: shared.New[kafkapos.TopicID, outcome](shared.Limits{Running: cfg.Waiting, Waiting: cfg.Waiting}),

		descents:  newDescents(cfg.Waiting),
		recording: shared.New[string, struct{}](shared.Limits{Running: cfg.Waiting, Waiting: cfg.Waiting}),
		slots:     make(chan struct{}, cfg.Parallel),
		walks:     make(chan struct{}, cfg.Parallel),
		tidy:      make(chan state.Log, cfg.Waiting),
		ready:     make(chan struct{}),
		tables:    map[kafkapos.TopicID]*table{},
	}
	s.descents.step = s.walkStep
	return s, s.reportBounds(deps.Meter)
}

// Name implements lifecycle.Part.
func (s *Service) Name() string { return "dedup" }

// Ready implements lifecycle.Part.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Run implements lifecycle.Part: it owns the work that callers start, merges runs, and collects what nothing names
// any more.
func (s *Service) Run(ctx context.Context) error {
	close(s.ready)
	var own sync.WaitGroup
	own.Go(func() { s.mergeRuns(ctx) })
	own.Go(func() { s.collect(ctx) })
	own.Go(func() { s.foldMarks(ctx) })
	own.Go(func() { s.descents.run(ctx) })
	<-ctx.Done()
	s.flights.Close()
	s.recording.Close()
	s.deletes.Close()
	own.Wait()
	if err := s.planner.Runs.Close(); err != nil {
		s.deps.Log.Warn("close runs", "err", err)
	}
	return nil
}

func (s *Service) collect(ctx context.Context) {
	tick := time.NewTicker(s.cfg.CollectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.garbage.Collect(ctx); err != nil && ctx.Err() == nil {
				s.deps.Log.Warn("collect unnamed state", "err", err)
			}
		}
	}
}

// publish publishes a piece of a log, and has its runs merged when they have become many.
func (s *Service) publish(ctx context.Context, spec *advance.Spec, piece *advance.Piece) error {
	if _, err := s.planner.Publish(ctx, spec, piece); err != nil {
		return err
	}
	if s.planner.Crowded(ctx, spec.Log) {
		select {
		case s.tidy <- spec.Log:
		default: // busy: a later publish asks again
		}
	}
	return nil
}

// mergeRuns merges the runs of logs that have become many, beside the advances that use them.
func (s *Service) mergeRuns(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case log := <-s.tidy:
			for again := true; again && ctx.Err() == nil; {
				var err error
				if again, err = s.planner.MergeRuns(ctx, log); err != nil && ctx.Err() == nil {
					s.deps.Log.Warn("merge runs", "state_epoch", log.Epoch, "kafka_partition", log.Partition, "err", err)
				}
			}
		}
	}
}

// running reports whether Run serves.
func (s *Service) running() error {
	select {
	case <-s.ready:
		return nil
	default:
		return fmt.Errorf("starting: %w", fault.ErrUnavailable)
	}
}

// table answers what is remembered of a topic.
func (s *Service) table(id kafkapos.TopicID) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tables[id]
	if !ok {
		t = &table{id: id, verified: map[kafkapos.Partition]kafkapos.LeaderEpoch{}, blocked: map[kafkapos.Partition]block{}}
		s.tables[id] = t
	}
	return t
}

// resolve answers the record of a state epoch that is served. Errors: fault.ErrNotFound for an epoch that never
// was, fault.ErrRetired with the reason for one that was given up.
func (s *Service) resolve(ctx context.Context, epoch string) (*state.Record, error) {
	info, _, err := s.store.Epoch(ctx, epoch)
	if err != nil {
		return nil, err
	}
	if info.Replaced != "" {
		return nil, fmt.Errorf("state epoch %s of table %s was given up: %s: %w", epoch, info.Table, info.Replaced, fault.ErrRetired)
	}
	rec, _, err := s.store.Record(ctx, info.Topic.ID)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, err
	}
	if err != nil || rec.Epoch != epoch {
		return nil, fmt.Errorf("state epoch %s of table %s was replaced by a newer one: %w", epoch, info.Table, fault.ErrRetired)
	}
	return rec, nil
}
