// Package catalog is the service that knows names, schemas and snapshots. It follows Kafka's metadata, has dedup
// publish cuts, and renders what it published as Iceberg metadata. It holds only caches: everything that it
// answers is a function of Kafka's metadata and dedup's state, so any replica answers the same bytes.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/shared"
)

// Limits of concurrent work. A flight mostly waits for another service, so there are many.
const (
	maxFlights = 256
	maxRenders = 16
)

// Deps are what the catalog stands on.
type Deps struct {
	Kafka  kafkalog.Metadata
	Dedup  dedupv1.DedupServiceClient
	Now    func() time.Time
	Logger *slog.Logger
	Meter  metric.Meter
}

// Service implements catalogv1.CatalogServiceServer and lifecycle.Part. Safe for concurrent use. Its errors have
// kinds; the server's interceptor turns them into codes.
type Service struct {
	catalogv1.UnimplementedCatalogServiceServer

	cfg     Config
	deps    Deps
	names   fileNames
	dir     *directory
	cache   *cache
	flights *shared.Group[string, outcome] // by topic
	renders *shared.Group[string, []byte]  // by object key
	metrics metrics
	held    chan struct{} // a place for each load that is held
	ready   chan struct{}
	ended   chan struct{} // closed when Run ends

	mu     sync.Mutex
	tables map[string]*table // by topic; those ever loaded
}

// New makes a catalog. Nothing runs before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if _, err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("catalog configuration: %w", err)
	}
	if deps.Kafka == nil || deps.Dedup == nil || deps.Logger == nil || deps.Meter == nil {
		return nil, fmt.Errorf("catalog: %w: a dependency is missing", fault.ErrInvalid)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	m, err := newMetrics(deps.Meter)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, names: newFileNames(), cache: newCache(cfg.Cache.MetadataMaxBytes), metrics: m,
		flights: shared.New[string, outcome](shared.Limits{Running: maxFlights, Waiting: cfg.Waiting}),
		renders: shared.New[string, []byte](shared.Limits{Running: maxRenders, Waiting: cfg.Waiting}),
		held:    make(chan struct{}, cfg.Waiting),
		ready:   make(chan struct{}), ended: make(chan struct{}), tables: map[string]*table{},
	}
	s.dir = newDirectory(deps.Kafka, &s.cfg, deps.Now)
	return s, s.reportBounds(deps.Meter)
}

// Name is the service's name.
func (*Service) Name() string { return "catalog" }

// Ready is closed once Run has begun: the catalog needs no warming up.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Run keeps recently loaded tables up to date until ctx ends. It is called once.
func (s *Service) Run(ctx context.Context) error {
	close(s.ready)
	defer close(s.ended)
	tick := time.NewTicker(s.cfg.Freshness.BackgroundInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.flights.Close()
			s.renders.Close()
			s.dir.close()
			return nil
		case <-tick.C:
			s.background(ctx)
		}
	}
}

// background starts a flight for each recently loaded table and waits for none: a table that is under way is
// left alone.
func (s *Service) background(ctx context.Context) {
	since := s.now().Add(-s.cfg.Freshness.BackgroundFor)
	s.mu.Lock()
	var active []*table
	for _, t := range s.tables {
		if t.active(since) {
			active = append(active, t)
		}
	}
	s.mu.Unlock()
	for _, t := range active {
		s.flights.Start(ctx, t.topic, s.flight(t))
	}
}

func (s *Service) now() time.Time { return s.deps.Now() }

func (s *Service) table(topic string) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tables[topic]
	if !ok {
		t = &table{topic: topic}
		s.tables[topic] = t
	}
	return t
}

// forget drops what was remembered of a topic that is gone.
func (s *Service) forget(t *table) {
	if p := t.view(); p.known {
		s.cache.drop(p.answer.epoch + "/")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tables[t.topic] == t {
		delete(s.tables, t.topic)
	}
}

func (s *Service) checkNamespace(namespace string) error {
	if namespace != s.cfg.Namespace {
		return fmt.Errorf("no namespace %q: %w", namespace, fault.ErrNotFound)
	}
	return nil
}

// ListNamespaces answers the one namespace.
func (s *Service) ListNamespaces(context.Context, *catalogv1.ListNamespacesRequest) (*catalogv1.ListNamespacesResponse, error) {
	return &catalogv1.ListNamespacesResponse{Namespaces: []string{s.cfg.Namespace}}, nil
}

// ListTables answers a page of tables. Topics that can't be served are listed too: loading them says why.
func (s *Service) ListTables(ctx context.Context, req *catalogv1.ListTablesRequest) (*catalogv1.ListTablesResponse, error) {
	if err := s.checkNamespace(req.GetNamespace()); err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, fmt.Errorf("page size %d: %w", req.GetPageSize(), fault.ErrInvalid)
	}
	l, err := s.dir.list(ctx)
	if err != nil {
		return nil, err
	}
	page, more := l.Page(req.GetPageToken(), int(req.GetPageSize()))
	resp := &catalogv1.ListTablesResponse{}
	for _, n := range page {
		resp.Tables = append(resp.Tables, &catalogv1.TableName{Table: n.Table, Topic: n.Topic})
	}
	if more {
		resp.NextPageToken = page[len(page)-1].Table
	}
	return resp, nil
}

// TableExists answers the topic of a table. A name that collides exists: loading it says what is wrong.
func (s *Service) TableExists(ctx context.Context, req *catalogv1.TableExistsRequest) (*catalogv1.TableExistsResponse, error) {
	if err := s.checkNamespace(req.GetNamespace()); err != nil {
		return nil, err
	}
	topic, err := s.dir.topic(ctx, req.GetTable())
	if err != nil && !errors.Is(err, fault.ErrInvalid) {
		return nil, err
	}
	return &catalogv1.TableExistsResponse{Topic: topic}, nil
}

// LoadTable answers a table's newest metadata.
func (s *Service) LoadTable(ctx context.Context, req *catalogv1.LoadTableRequest) (*catalogv1.LoadTableResponse, error) {
	resp, result, err := s.loadTable(ctx, req)
	if err != nil {
		result = "error"
	}
	s.metrics.load(ctx, result)
	return resp, err
}

func (s *Service) loadTable(ctx context.Context, req *catalogv1.LoadTableRequest) (*catalogv1.LoadTableResponse, string, error) {
	dialect, err := dialectOf(req.GetWarehouse())
	if err != nil {
		return nil, "", err
	}
	if err := s.checkNamespace(req.GetNamespace()); err != nil {
		return nil, "", err
	}
	topic, state, stale, err := s.hold(ctx, req.GetTable())
	if err == nil && s.met(state, req.GetKnownMetadataLocation()) {
		topic, state, stale, err = s.hold(ctx, req.GetTable())
	}
	if err != nil {
		return nil, "", err
	}
	sub := newSubject(&s.cfg, state, dialect)
	object := sub.object(sub.metadataFile())
	resp := &catalogv1.LoadTableResponse{
		MetadataLocation: sub.uri(object.Key()), Location: sub.location(), StateEpoch: state.GetStateEpoch(), Topic: topic,
	}
	result := "fresh"
	if !stale.since.IsZero() {
		result = "stale"
	}
	if req.GetKnownMetadataLocation() == resp.GetMetadataLocation() {
		return resp, "unchanged", nil
	}
	stale.walked = s.walked(ctx, state)
	if stale.since.IsZero() && stale.walked == nil && !req.GetRefsOnly() {
		resp.MetadataJson, err = s.metadataObject(ctx, sub, object)
	} else {
		resp.MetadataJson, err = sub.metadata(stale, req.GetRefsOnly())
	}
	return resp, result, err
}

// seek answers the topic of a table, and its newest state.
func (s *Service) seek(ctx context.Context, table string) (topic string, state *dedupv1.TableState, stale staleness, err error) {
	if topic, err = s.dir.topic(ctx, table); err != nil {
		return "", nil, staleness{}, err
	}
	if state, stale, err = s.present(ctx, topic); err != nil {
		return "", nil, staleness{}, fmt.Errorf("load table %s: %w", table, err)
	}
	return topic, state, stale, nil
}

// present answers the newest state of a topic's table. A version that dedup has given up since it was named is
// asked for anew, once.
func (s *Service) present(ctx context.Context, topic string) (*dedupv1.TableState, staleness, error) {
	t := s.table(topic)
	t.touch(s.now())
	for attempt := 0; ; attempt++ {
		a, err := s.await(ctx, t)
		if err != nil {
			return nil, staleness{}, err
		}
		state, err := s.state(ctx, a.epoch, a.version)
		if err == nil {
			return state, a.stale, nil
		}
		if gone := errors.Is(err, fault.ErrRetired) || errors.Is(err, fault.ErrNotFound); !gone || attempt > 0 {
			return nil, staleness{}, err
		}
		t.uncover()
	}
}

func dialectOf(warehouse string) (string, error) {
	switch warehouse {
	case "", objectname.V2:
		return objectname.V2, nil
	case objectname.V3:
		return objectname.V3, nil
	}
	return "", fmt.Errorf("no warehouse %q, there are v2 and v3: %w", warehouse, fault.ErrInvalid)
}
