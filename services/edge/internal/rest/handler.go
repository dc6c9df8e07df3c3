// Package rest is the Iceberg REST catalog: the read-only part of the specification, tags, and a clear refusal for
// the rest of it.
//
// Source of the rules: Apache Iceberg, open-api/rest-catalog-open-api.yaml. Where a client needs more than that, the
// line names it.
package rest

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/objectname"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// Config is what answers are made of beside the tables.
type Config struct {
	DefaultWarehouse string
	PublicURI        string // empty: clients are not told
	Bucket           string
	Region           string
	RequestTimeout   time.Duration
	ConnectTimeout   time.Duration
	// BodyTimeout is how long a client may take to send what it sends.
	BodyTimeout time.Duration
	// Endpoint is the S3 endpoint to vend to the sender of a request: scheme, host, port and a slash.
	Endpoint func(r *http.Request) string
}

// Deps are the parties that the handler talks to.
type Deps struct {
	Catalog catalogv1.CatalogServiceClient
	Authn   *authn.Authenticator
	Vendor  *vend.Vendor
	Now     func() time.Time
	Log     *slog.Logger
	// Loaded is told which state epoch every load of a table names. nil: nobody is told.
	Loaded func(table, epoch string)
}

// Handler answers catalog requests. Safe for concurrent use.
type Handler struct {
	cfg    Config
	deps   Deps
	routes []route
	// loaded remembers the newest metadata location per table, so that a load whose answer will be 304 does not
	// carry the metadata. A hint.
	loaded *lru.Cache[string, string]
	vended *lru.Cache[string, struct{}]
}

const hintCache = 4096

// New makes a handler.
func New(cfg Config, deps Deps) *Handler {
	h := &Handler{
		cfg: cfg, deps: deps,
		loaded: lru.New[string, string](hintCache), vended: lru.New[string, struct{}](hintCache),
	}
	h.routes = h.table()
	return h
}

// request is one call under way.
type request struct {
	w         *observe.Writer
	r         *http.Request
	principal authn.Principal
	warehouse string
	vars      map[string]string // raw segments of the path
}

// refusal is an error whose answer is decided.
type refusal struct {
	status int
	kind   string // type of the Iceberg error
	text   string
}

// Error is the text that the client sees.
func (e *refusal) Error() string { return e.text }

func refuse(status int, kind, format string, args ...any) error {
	return &refusal{status, kind, fmt.Sprintf(format, args...)}
}

// Serve answers one request.
func (h *Handler) Serve(w *observe.Writer, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		w.Err = err
		h.fail(w, r, err)
	}
}

func (h *Handler) serve(w *observe.Writer, r *http.Request) error {
	segments := strings.Split(strings.TrimLeft(r.URL.EscapedPath(), "/"), "/")
	if err := h.checkHost(r); err != nil {
		return err
	}
	if segments[0] != "v1" {
		return refuse(http.StatusNotFound, "NotFoundException", "No such path: the catalog is below /v1")
	}
	segments = segments[1:]
	if len(segments) == 2 && segments[0] == "oauth" && segments[1] == "tokens" {
		w.Operation = "getToken"
		return refuseToken(w)
	}
	principal, err := h.deps.Authn.Request(r)
	if err != nil {
		return refuse(http.StatusUnauthorized, "NotAuthorizedException", "%v", err)
	}
	q := &request{w: w, r: r, principal: principal}
	if len(segments) == 1 && segments[0] == "config" {
		w.Operation = "getConfig"
		if r.Method != http.MethodGet {
			return noMethod(r)
		}
		return h.getConfig(q)
	}
	if q.warehouse, segments, err = h.takePrefix(segments); err != nil {
		return err
	}
	return h.dispatch(q, segments)
}

// takePrefix splits the warehouse off a path. A client that was told no prefix has the default one.
func (h *Handler) takePrefix(segments []string) (string, []string, error) {
	if len(segments) == 0 {
		return "", nil, noRoute()
	}
	if slices.Contains([]string{"namespaces", "tables", "views", "transactions"}, segments[0]) {
		return h.cfg.DefaultWarehouse, segments, nil
	}
	name, err := url.PathUnescape(segments[0])
	if len(segments) < 2 || err != nil {
		return "", nil, noRoute()
	}
	if !isWarehouse(name) {
		return "", nil, noWarehouse(name)
	}
	return name, segments[1:], nil
}

func isWarehouse(name string) bool { return name == objectname.V2 || name == objectname.V3 }

func noWarehouse(name string) error {
	return refuse(http.StatusNotFound, "NoSuchWarehouseException", "Warehouse does not exist: %s; there are %s and %s", name, objectname.V2, objectname.V3)
}

func noRoute() error {
	return refuse(http.StatusNotFound, "NotFoundException", "No such path in this catalog")
}

func noMethod(r *http.Request) error {
	return refuse(http.StatusBadRequest, "BadRequestException", "No route for request: %s", r.Method)
}

// checkHost: without authentication, a page in a browser could reach a loopback listener by a name that it owns
// (DNS rebinding). So only names that nobody else can own are answered.
func (h *Handler) checkHost(r *http.Request) error {
	if !h.deps.Authn.IsOpen() {
		return nil
	}
	host := hostName(r.Host)
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	if u, err := url.Parse(h.cfg.PublicURI); err == nil && u.Host != "" && strings.EqualFold(u.Hostname(), host) {
		return nil
	}
	return refuse(http.StatusForbidden, "ForbiddenException", "Without authentication the catalog answers to local names only; set rest.public_uri or auth.mode: token")
}

func hostName(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return hostPort
}

// fail writes an error as the specification wants it.
func (h *Handler) fail(w *observe.Writer, r *http.Request, err error) {
	e := asRefusal(err)
	if r.Context().Err() != nil && e.status != http.StatusRequestTimeout {
		return // nobody is there; net/http takes a slow sender for gone
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	switch e.status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="frazil"`)
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "5")
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(e.status)
		return
	}
	writeJSON(w, e.status, map[string]any{"error": map[string]any{"message": e.text, "type": e.kind, "code": e.status}})
}

// asRefusal maps the kinds. What was asked for is known where the call was made, so a NotFound without a refusal
// is about nothing in particular. fault.ErrUnauthenticated is not here: between services it is our fault, and a
// client that is told 401 throws its own token away.
func asRefusal(err error) *refusal {
	var e *refusal
	if errors.As(err, &e) {
		return e
	}
	switch {
	case errors.Is(err, fault.ErrCorrupt):
		return &refusal{http.StatusInternalServerError, "InternalServerError", err.Error()}
	case errors.Is(err, fault.ErrNotFound):
		return &refusal{http.StatusNotFound, "NotFoundException", err.Error()}
	case errors.Is(err, fault.ErrInvalid):
		return &refusal{http.StatusBadRequest, "BadRequestException", err.Error()}
	case errors.Is(err, fault.ErrDenied):
		return &refusal{http.StatusForbidden, "ForbiddenException", err.Error()}
	case errors.Is(err, fault.ErrUnsupported):
		return &refusal{http.StatusNotImplemented, "UnsupportedOperationException", err.Error()}
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrRetired), errors.Is(err, fault.ErrConflict):
		return &refusal{http.StatusServiceUnavailable, "SlowDownException", err.Error()}
	}
	return &refusal{http.StatusInternalServerError, "InternalServerError", "internal error"}
}
