package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/lifecycle"
	"github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/telemetry"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	"github.com/frazil-io/frazil/services/edge"
	"github.com/frazil-io/frazil/services/internal/replicas"
)

// instrumentation is the scope of all instruments and spans.
const instrumentation = "github.com/frazil-io/frazil"

// Run runs a target until ctx ends or a part fails. The configuration must be valid for the target.
func Run(ctx context.Context, c Config, target Target, tel *telemetry.Telemetry) error {
	return RunGiven(ctx, c, target, tel, Given{})
}

// Given is what a caller has in place of what a process opens itself.
type Given struct {
	// Store of dedup's state, opened and closed by the caller. nil: the one that state.kind names.
	Store chainstore.Store
	// Clock that all services go by. nil: the machine's. Timers are the machine's always.
	Clock func() time.Time
}

// RunGiven is Run with what the caller has.
func RunGiven(ctx context.Context, c Config, target Target, tel *telemetry.Telemetry, given Given) (err error) {
	if given.Clock == nil {
		given.Clock = time.Now
	}
	hash, err := c.Hash()
	if err != nil {
		return err
	}
	a := &assembly{
		cfg: c, target: target, tel: tel, log: tel.Logger, given: given, ready: newReadiness(), conns: map[Target]grpc.ClientConnInterface{},
		cluster: &cluster{secret: c.Cluster.Secret, configHash: hash, now: given.Clock},
		pipes:   map[Target]*rpc.Pipe{TargetCatalog: rpc.NewPipe(), TargetMaterializer: rpc.NewPipe(), TargetDedup: rpc.NewPipe()},
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.assemble(ctx); err != nil {
		return err
	}
	limitMemory(target, int64(c.Memory.MaxBytes))
	a.log.Info("frazil starts", "target", string(target), "version", Version(), "config_hash", hash)
	err = lifecycle.Run(ctx, a.parts...)
	a.log.Info("frazil has stopped")
	return err
}

// assembly is a process in the making. What it opens it closes, also when it comes to nothing.
type assembly struct {
	cfg     Config
	target  Target
	tel     *telemetry.Telemetry
	log     *slog.Logger
	given   Given
	ready   *readiness
	cluster *cluster
	pipes   map[Target]*rpc.Pipe // of the services that run here

	door    kafkaDoor                           // nil until it is needed
	conns   map[Target]grpc.ClientConnInterface // to services, made when they are needed
	parts   []lifecycle.Part                    // in starting order
	closers []func() error                      // in opening order
}

func (a *assembly) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

func (a *assembly) add(parts ...lifecycle.Part) { a.parts = append(a.parts, parts...) }

// assemble makes the parts in starting order: whom others stand on comes first and stops last.
func (a *assembly) assemble(ctx context.Context) error {
	if err := a.addHealth(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		target Target
		add    func(context.Context) error
	}{
		{TargetDedup, a.addDedup},
		{TargetMaterializer, a.addMaterializer},
		{TargetCatalog, a.addCatalog},
		{TargetEdge, a.addEdge},
	} {
		if !a.target.runs(s.target) {
			continue
		}
		if err := s.add(ctx); err != nil {
			return fmt.Errorf("make %s: %w", s.target, err)
		}
	}
	if !a.target.runs(TargetEdge) { // an edge has its own order of ending
		a.add(a.ready.draining(a.cfg.Shutdown.Delay))
	}
	return nil
}

// addHealth opens the listener for health and metrics of processes without a REST port, and where it was asked for.
func (a *assembly) addHealth(ctx context.Context) error {
	address := a.cfg.Health.Listen
	if address == "" {
		if a.target == TargetAll {
			return nil
		}
		address = defaultHealthListen
	}
	l, err := a.listen(ctx, "health.listen", address)
	if err != nil {
		return err
	}
	a.add(serveHTTP("health", a.ready.handler(a.tel.Metrics), a.cfg.Shutdown.Grace, l))
	return nil
}

func (a *assembly) addEdge(ctx context.Context) error {
	own := a.cfg.edge()
	deps := edge.Deps{
		Now: a.given.Clock, Log: a.logger(TargetEdge), Meter: a.tel.Meters.Meter(instrumentation),
		Tracer: a.tel.Tracers.Tracer(instrumentation), Propagator: a.tel.Propagator(),
	}
	catalog, err := a.connect(TargetCatalog)
	if err != nil {
		return err
	}
	dedup, err := a.connect(TargetDedup)
	if err != nil {
		return err
	}
	materializer, err := a.connect(TargetMaterializer)
	if err != nil {
		return err
	}
	deps.Catalog, deps.Dedup = catalogv1.NewCatalogServiceClient(catalog), dedupv1.NewDedupServiceClient(dedup)
	deps.Materializer = materializerv1.NewMaterializerServiceClient(materializer)
	if own.Credentials.Key.Empty() {
		if deps.VendingKey, err = vendingKey(a.cfg.dir("vending.key")); err != nil {
			return err
		}
	}
	deps.Readiness = func(ready bool) {
		var reason error
		if !ready {
			reason = errors.New("not serving")
		}
		a.ready.set("edge", reason)
	}
	deps.Readiness(false)
	health := a.ready.handler(a.tel.Metrics)
	deps.Handlers = map[string]http.Handler{"/readyz": health, "/livez": health}
	if loopback(own.REST.Listen) { // elsewhere metrics are only on the health listener
		deps.Handlers["/metrics"] = health
	}
	service, err := edge.New(own, deps)
	if err != nil {
		return err
	}
	a.add(service)
	return nil
}

// connect makes a connection to a service: to the one in this process, or to all replicas elsewhere. There is one for
// each service.
func (a *assembly) connect(target Target) (grpc.ClientConnInterface, error) {
	if conn := a.conns[target]; conn != nil {
		return conn, nil
	}
	conn, err := a.newConn(target)
	if err == nil {
		a.conns[target] = conn
	}
	return conn, err
}

func (a *assembly) newConn(target Target) (grpc.ClientConnInterface, error) {
	if a.target == TargetAll {
		conn, err := a.pipes[target].Dial(string(target), a.dialOptions()...)
		if err == nil {
			a.closers = append(a.closers, conn.Close)
		}
		return conn, err
	}
	set, err := replicas.New(
		replicas.Config{
			Service: string(target), Target: a.cfg.Services.of(target), Every: a.cfg.Services.ResolveEvery,
			ProbeEvery: replicas.DefaultProbeEvery, ProbeTimeout: replicas.DefaultProbeTimeout, Patience: replicas.DefaultPatience,
		},
		replicas.Deps{
			Dial:   func(address string) (replicas.Conn, error) { return a.dial(address) },
			Lookup: net.DefaultResolver.LookupHost,
			Place:  replicas.PlaceOf,
			Log:    a.log,
		})
	if err != nil {
		return nil, err
	}
	a.add(set)
	return set, nil
}

// serve adds a service and its gRPC server: over the pipe in one process, over TCP in split mode.
func (a *assembly) serve(ctx context.Context, target Target, address string, service lifecycle.Part, register func(grpc.ServiceRegistrar)) error {
	opts := append(rpc.ServerOptions(), a.cluster.serverOptions()...)
	opts = append(append(opts, replicas.ServerOptions()...), a.tel.ServerOption())
	listener := a.pipes[target].Listener()
	if a.target == TargetAll {
		opts = append(opts, a.pipes[target].ServerOptions()...)
	} else {
		tcp, err := a.listen(ctx, "services.listen."+string(target), address)
		if err != nil {
			return err
		}
		listener = tcp
		a.log.Info("service listens", "service", string(target), "address", tcp.Addr().String())
	}
	server := grpc.NewServer(opts...)
	register(server)
	replicas.RegisterHealth(server, a.ready.Check)
	a.ready.await(string(target), service.Ready())
	a.add(service, serveGRPC(string(target)+" gRPC", server, a.cfg.Shutdown.Grace, listener))
	return nil
}

// dialOptions go before those of rpc, which must see the bare status. A replica that was away is found again soon.
func (a *assembly) dialOptions() []grpc.DialOption {
	return append(a.cluster.dialOptions(), a.tel.DialOption(), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: 3 * time.Second,
	}))
}

// dial makes a connection that the caller closes.
func (a *assembly) dial(address string) (*grpc.ClientConn, error) {
	opts := append(rpc.DialOptions(), a.dialOptions()...)
	conn, err := grpc.NewClient(address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	return conn, nil
}

// listen opens a listener that is closed at the end at the latest.
func (a *assembly) listen(ctx context.Context, key, address string) (net.Listener, error) {
	l, err := listen(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	a.closers = append(a.closers, func() error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

func (a *assembly) logger(target Target) *slog.Logger {
	return a.log.With("service", string(target))
}
