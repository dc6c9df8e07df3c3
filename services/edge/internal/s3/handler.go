// Package s3 is the read-only S3 endpoint: one bucket whose objects are made when they are asked for.
//
// Source of the rules: Amazon S3 API reference. Where a client needs more than that, the line names it.
package s3

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/object"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
	"github.com/frazil-io/frazil/services/edge/internal/sigv4"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// Config is what the endpoint looks like from outside.
type Config struct {
	Bucket string
	Domain string // empty: path style only
	Region string
	Hold   time.Duration // of a request whose outcome is not known yet
}

// Store answers objects.
type Store interface {
	// Stat finds an object without starting work on it.
	Stat(ctx context.Context, key string) (object.Info, error)
	// Open returns once the first bytes are there.
	Open(ctx context.Context, info object.Info, offset, length int64) (*object.Reader, error)
	// List answers the listed objects of a scope, sorted by key.
	List(ctx context.Context, scope vend.Scope, bucket string) ([]object.Info, error)
}

// Deps are the parties that the handler talks to.
type Deps struct {
	Store  Store
	Authn  *authn.Authenticator
	Vendor *vend.Vendor
	Now    func() time.Time
	// NewID makes an id for a request: a few letters and digits.
	NewID func() string
	// AfterFunc is time.AfterFunc's contract: stop reports whether it came before f.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// Handler answers S3 requests. Safe for concurrent use.
type Handler struct {
	cfg      Config
	deps     Deps
	verifier *sigv4.Verifier[vend.Claims]
}

// New makes a handler.
func New(cfg Config, deps Deps) *Handler {
	h := &Handler{cfg: cfg, deps: deps}
	h.verifier = sigv4.New(h.secret, deps.Now)
	return h
}

// secret is sigv4.Keys: every answer to bad credentials is S3's.
func (h *Handler) secret(accessKey, token string, now time.Time) (string, vend.Claims, error) {
	if token == "" {
		return "", vend.Claims{}, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The access key is not known here: only vended credentials are, with their session token.")
	}
	secret, claims, err := h.deps.Vendor.Verify(accessKey, token, now)
	switch {
	case errors.Is(err, vend.ErrExpired):
		return "", vend.Claims{}, refuse(http.StatusBadRequest, "ExpiredToken", "The provided token has expired: load the table again, or ask its credentials endpoint, for new credentials.")
	case errors.Is(err, vend.ErrUnknownAccessKey):
		return "", vend.Claims{}, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The access key does not belong to the session token.")
	case err != nil:
		return "", vend.Claims{}, refuse(http.StatusForbidden, "InvalidToken", "The provided token is malformed or otherwise not valid.")
	}
	// Credentials outlive the configuration that they were vended under; the right to the table does not.
	if p, ok := h.deps.Authn.Named(claims.Principal); !ok || !p.Sees(claims.Namespace, claims.Table) {
		return "", vend.Claims{}, refuse(http.StatusForbidden, "AccessDenied", "Access Denied: the principal may no longer read this table.")
	}
	return secret, claims, nil
}

// request is one call under way.
type request struct {
	w      *observe.Writer
	r      *http.Request
	id     string
	bucket string
	key    string
	query  url.Values
	claims vend.Claims
}

// Serve answers one request.
func (h *Handler) Serve(w *observe.Writer, r *http.Request) {
	q := &request{w: w, r: r, id: h.deps.NewID()}
	header := w.Header()
	header.Set("X-Amz-Request-Id", q.id)
	header.Set("X-Amz-Id-2", q.id)
	header.Set("Server", "Frazil")
	ctx, release := h.hold(r.Context())
	if err := h.serve(ctx, release, q); err != nil {
		w.Err = err
		h.fail(ctx, q, err)
	}
	release()
}

// errHeld ends a request whose outcome took too long. The work behind it goes on and serves the next try.
var errHeld = errors.New("still being made")

// hold makes a context that ends after the hold unless release was called before. release reports whether it came
// in time; it may be called more than once.
func (h *Handler) hold(parent context.Context) (ctx context.Context, release func() bool) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := h.deps.AfterFunc(h.cfg.Hold, func() { cancel(errHeld) })
	released := false
	return ctx, func() bool {
		released = released || stop()
		return released
	}
}

func (h *Handler) serve(ctx context.Context, release func() bool, q *request) error {
	var err error
	if q.bucket, q.key, err = h.address(q.r); err != nil {
		return err
	}
	if q.query, err = url.ParseQuery(q.r.URL.RawQuery); err != nil {
		return refuse(http.StatusBadRequest, "InvalidArgument", "The query is not decodable.")
	}
	reads := q.r.Method == http.MethodGet || q.r.Method == http.MethodHead
	if q.claims, err = h.verifier.Verify(q.r); err != nil {
		if !reads && isCode(err, "NotImplemented") {
			q.w.Operation = "write"
			return readOnly()
		}
		return fromSignature(err)
	}
	if !reads {
		q.w.Operation = "write"
		return readOnly()
	}
	return h.dispatch(ctx, release, q)
}

func readOnly() error {
	return refuse(http.StatusForbidden, "AccessDenied", "Access Denied: this endpoint is read-only.")
}

func (h *Handler) dispatch(ctx context.Context, release func() bool, q *request) error {
	sub := subresource(q.query)
	switch {
	case q.bucket == "":
		q.w.Operation = "ListBuckets"
		return h.listBuckets(q)
	case q.bucket != h.cfg.Bucket:
		return refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case q.key != "" && sub == "":
		return h.object(ctx, release, q)
	case q.key == "" && sub == "location" && q.r.Method == http.MethodGet:
		q.w.Operation = "GetBucketLocation"
		return h.location(q)
	case sub != "":
		q.w.Operation = "unsupported"
		return refuse(http.StatusNotImplemented, "NotImplemented", "A query parameter you provided implies functionality that is not implemented: %s", sub)
	case q.r.Method == http.MethodHead:
		q.w.Operation = "HeadBucket"
		q.w.Header().Set("X-Amz-Bucket-Region", h.cfg.Region)
		q.w.Header().Set("Content-Type", "application/xml")
		q.w.WriteHeader(http.StatusOK)
		return nil
	}
	return h.list(ctx, q)
}

// address splits bucket and key. The host decides first: <bucket>.<domain> is virtual-host style. The path is
// never cleaned: a key is what was sent.
func (h *Handler) address(r *http.Request) (bucket, key string, err error) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if h.cfg.Domain != "" {
		if name, ok := strings.CutSuffix(strings.ToLower(host), "."+strings.ToLower(h.cfg.Domain)); ok {
			return name, path, nil
		}
	}
	bucket, key, _ = strings.Cut(path, "/")
	if strings.HasPrefix(path, "/") {
		return "", "", refuse(http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid.")
	}
	return bucket, key, nil
}

// subresource answers the name of an operation that the query asks for instead of the plain one. Parameters that
// mean nothing to S3 either (x-id, …) are ignored.
func subresource(query url.Values) string {
	for _, name := range []string{
		"accelerate", "acl", "analytics", "attributes", "cors", "delete", "encryption", "intelligent-tiering",
		"inventory", "legal-hold", "lifecycle", "location", "logging", "metadataConfiguration", "metadataTable", "metrics",
		"notification", "object-lock", "ownershipControls", "partNumber", "policy", "policyStatus",
		"publicAccessBlock", "replication", "requestPayment", "restore", "retention", "select", "session", "tagging",
		"torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website",
	} {
		if query.Has(name) {
			return name
		}
	}
	return ""
}

// allowed checks the scope of the credentials: one view of one table. The dialect does not count: DuckDB (1.5.5)
// keeps one secret per table location, which the dialects share, so that reading both warehouses in one process would
// fail. See docs/adr/0016-credentials-cover-all-dialects.md.
func allowed(c vend.Claims, key string) error {
	if c.Prefix == "" || !strings.HasPrefix(key, c.Prefix) {
		return refuse(http.StatusForbidden, "AccessDenied", "Access Denied: the credentials are for another table or view.")
	}
	return nil
}
