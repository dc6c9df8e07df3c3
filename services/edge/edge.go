// Package edge is the public face of Frazil: the Iceberg REST catalog and the S3 endpoint, who may use them, and
// the credentials that lead from the one to the other. It never interprets the bytes that it serves.
package edge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/object"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
	"github.com/frazil-io/frazil/services/edge/internal/rest"
	"github.com/frazil-io/frazil/services/edge/internal/s3"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// Deps are what the edge is given. All but Readiness, Handlers, VendingKey, Tracer and Propagator are required.
type Deps struct {
	Catalog catalogv1.CatalogServiceClient
	Dedup   dedupv1.DedupServiceClient
	// Materializer is all replicas: the client chooses the one that the scan of a range used.
	Materializer materializerv1.MaterializerServiceClient
	// VendingKey signs credentials when the configuration has no key; at least 32 bytes, kept by the caller.
	VendingKey []byte
	// Readiness is told true when both listeners serve and false when the end begins. nil: nobody is told.
	Readiness func(ready bool)
	// Handlers are served on the REST listener at exactly these paths (/metrics, /readyz, …), without
	// authentication.
	Handlers map[string]http.Handler
	// Tracer makes a span of each request, which goes on with what Propagator finds in its headers. nil: no spans.
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	Now        func() time.Time
	Log        *slog.Logger
	Meter      metric.Meter
}

// Service is the edge. Its methods are safe for concurrent use.
type Service struct {
	cfg   Config
	deps  Deps
	rest  http.Handler
	s3    http.Handler
	ready chan struct{}
	addrs atomic.Pointer[addresses]
}

type addresses struct{ rest, s3 net.Addr }

// New checks and allocates; it opens nothing. Warnings of Validate are the caller's to report.
func New(cfg Config, deps Deps) (*Service, error) {
	if _, err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure edge: %w", err)
	}
	if deps.Catalog == nil || deps.Dedup == nil || deps.Materializer == nil || deps.Now == nil || deps.Log == nil || deps.Meter == nil {
		return nil, errors.New("make edge: a dependency is missing")
	}
	s := &Service{cfg: cfg, deps: deps, ready: make(chan struct{})}
	observer, err := observe.New(deps.Meter, deps.Log, deps.Now)
	if err != nil {
		return nil, fmt.Errorf("make edge: %w", err)
	}
	if deps.Tracer != nil && deps.Propagator != nil {
		observer = observer.Traced(deps.Tracer, deps.Propagator)
	}
	auth, err := s.authenticator()
	if err != nil {
		return nil, fmt.Errorf("make edge: %w", err)
	}
	vendor, err := s.vendor()
	if err != nil {
		return nil, fmt.Errorf("make edge: %w", err)
	}
	store := object.NewStore(deps.Catalog, deps.Dedup, deps.Materializer, deps.Now)
	s.makeREST(observer, auth, vendor, store)
	s.makeS3(observer, auth, vendor, store)
	return s, nil
}

func (s *Service) authenticator() (*authn.Authenticator, error) {
	if s.cfg.authMode() == AuthNone {
		return authn.Open(), nil
	}
	tokens := make([]authn.Token, len(s.cfg.Auth.Tokens))
	for i, t := range s.cfg.Auth.Tokens {
		tokens[i] = authn.Token{Secret: t.Token.Reveal(), Principal: t.Principal, Tables: t.Tables, Write: t.Write}
	}
	return authn.WithTokens(tokens)
}

func (s *Service) vendor() (*vend.Vendor, error) {
	key := []byte(s.cfg.Credentials.Key.Reveal())
	if len(key) == 0 {
		key = s.deps.VendingKey
	}
	if len(key) < minKeyLen {
		return nil, fmt.Errorf("vending key of %d bytes, want at least %d: set credentials.key", len(key), minKeyLen)
	}
	var previous [][]byte
	for _, p := range s.cfg.Credentials.PreviousKeys {
		previous = append(previous, []byte(p.Reveal()))
	}
	return vend.New(key, previous, s.cfg.Credentials.Lifetime)
}

func (s *Service) makeREST(o *observe.Observer, auth *authn.Authenticator, vendor *vend.Vendor, store *object.Store) {
	h := rest.New(rest.Config{
		DefaultWarehouse: s.cfg.REST.DefaultWarehouse, PublicURI: s.cfg.REST.PublicURI,
		Bucket: s.cfg.S3.Bucket, Region: s.cfg.S3.Region,
		RequestTimeout: s.cfg.S3.RequestTimeout, ConnectTimeout: s.cfg.S3.ConnectTimeout, BodyTimeout: 30 * time.Second,
		Endpoint: s.endpoint,
	}, rest.Deps{Catalog: s.deps.Catalog, Authn: auth, Vendor: vendor, Now: s.deps.Now, Log: s.deps.Log, Loaded: store.Loaded})
	catalog := o.Handler("rest", h.Serve)
	s.rest = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if extra, ok := s.deps.Handlers[r.URL.Path]; ok {
			extra.ServeHTTP(w, r)
			return
		}
		catalog.ServeHTTP(w, r)
	})
}

func (s *Service) makeS3(o *observe.Observer, auth *authn.Authenticator, vendor *vend.Vendor, store *object.Store) {
	h := s3.New(s3.Config{Bucket: s.cfg.S3.Bucket, Domain: s.cfg.S3.Domain, Region: s.cfg.S3.Region, Hold: s.cfg.S3.Hold},
		s3.Deps{
			Store: store, Authn: auth, Vendor: vendor, Now: s.deps.Now, NewID: newRequestID,
			AfterFunc: func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop },
		})
	s.s3 = o.Handler("s3", h.Serve)
}

// newRequestID makes 16 characters; crypto/rand.Read never fails.
func newRequestID() string {
	var b [8]byte
	rand.Read(b[:])
	return strings.ToUpper(hex.EncodeToString(b[:]))
}

// endpoint is what is vended as s3.endpoint to the sender of r.
func (s *Service) endpoint(r *http.Request) string {
	if e := s.cfg.S3.PublicEndpoint; e != "" {
		return strings.TrimRight(e, "/") + "/"
	}
	host, port, err := net.SplitHostPort(s.cfg.S3.Listen)
	if err != nil {
		host, port = "127.0.0.1", "0"
	}
	if a := s.addrs.Load(); a != nil {
		if _, bound, err := net.SplitHostPort(a.s3.String()); err == nil {
			port = bound
		}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = r.Host
		if name, _, err := net.SplitHostPort(r.Host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// Name is "edge".
func (s *Service) Name() string { return "edge" }

// Ready is closed once both listeners serve.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// RESTAddr is the bound address of the catalog; nil before Ready.
func (s *Service) RESTAddr() net.Addr {
	if a := s.addrs.Load(); a != nil {
		return a.rest
	}
	return nil
}

// S3Addr is the bound address of the S3 endpoint; nil before Ready.
func (s *Service) S3Addr() net.Addr {
	if a := s.addrs.Load(); a != nil {
		return a.s3
	}
	return nil
}

// Run serves until ctx ends or a listener fails. The end: not ready, delay, drain for at most the grace, stop.
// It may be called once.
func (s *Service) Run(ctx context.Context) error {
	var lc net.ListenConfig
	restL, err := lc.Listen(ctx, "tcp", s.cfg.REST.Listen)
	if err != nil {
		return fmt.Errorf("listen for the catalog: %w", err)
	}
	s3L, err := lc.Listen(ctx, "tcp", s.cfg.S3.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for S3: %w", err), restL.Close())
	}
	s.addrs.Store(&addresses{rest: restL.Addr(), s3: s3L.Addr()})
	servers := []*http.Server{s.server(s.rest), s.server(s.s3)}
	failed := make(chan error, len(servers))
	for i, l := range []net.Listener{restL, s3L} {
		go func() { failed <- servers[i].Serve(l) }()
	}
	s.tell(true)
	close(s.ready)
	s.deps.Log.Info("edge is serving", "rest", restL.Addr().String(), "s3", s3L.Addr().String(), "auth_mode", s.cfg.authMode())
	running := len(servers)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
		err = fmt.Errorf("serve: %w", err)
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx), servers, failed, running))
}

// server has no write timeout: a GET may take as long as its reader does.
func (s *Service) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       150 * time.Second, // clients keep idle connections for up to 90 s
		ErrorLog:          slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug),
	}
}

func (s *Service) stop(ctx context.Context, servers []*http.Server, failed <-chan error, running int) error {
	s.tell(false)
	if s.cfg.Shutdown.Delay > 0 {
		<-time.After(s.cfg.Shutdown.Delay)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Shutdown.Grace)
	defer cancel()
	done := make(chan error, len(servers))
	for _, srv := range servers {
		go func() {
			err := srv.Shutdown(ctx)
			if errors.Is(err, context.DeadlineExceeded) {
				s.deps.Log.Warn("requests were cut off at the end", "grace", s.cfg.Shutdown.Grace)
				err = srv.Close()
			}
			done <- err
		}()
	}
	var errs []error
	for range servers {
		errs = append(errs, <-done)
	}
	for range running {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Service) tell(ready bool) {
	if s.deps.Readiness != nil {
		s.deps.Readiness(ready)
	}
}
