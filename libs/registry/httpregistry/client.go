// Package httpregistry reads a Confluent-compatible schema registry over HTTP.
package httpregistry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/registry"
)

// Config says where the registry is and how patient the client is.
type Config struct {
	// URL is the base of the API, with any path prefix: http://registry:8081, http://apicurio:8080/apis/ccompat/v7.
	URL string
	// Username and Password are sent as basic authentication if Username is not empty.
	Username, Password string
	// Token is sent as a bearer token if it is not empty; it excludes Username.
	Token string
	// Timeout bounds one HTTP request.
	Timeout time.Duration
	// Attempts is how often a request is tried before the answer is fault.ErrUnavailable.
	Attempts int
	// Backoff is the wait after the first failed attempt; it doubles after each one.
	Backoff time.Duration
}

// Default is a patient configuration without a URL.
func Default() Config {
	return Config{Timeout: 5 * time.Second, Attempts: 4, Backoff: 200 * time.Millisecond}
}

// Validate reports what makes the configuration unusable.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("registry URL must be http:// or https:// with a host: %w", fault.ErrInvalid)
	case c.Username != "" && c.Token != "":
		return fmt.Errorf("registry takes a user name or a token, not both: %w", fault.ErrInvalid)
	case c.Timeout <= 0 || c.Attempts < 1 || c.Backoff < 0:
		return fmt.Errorf("registry timeout and attempts must be positive: %w", fault.ErrInvalid)
	}
	return nil
}

// Client is a registry.Registry. Ids are cached for ever, since a registry never gives one to another schema; an
// id that the registry does not know is asked for again each time.
type Client struct {
	cfg  Config
	base string
	http *http.Client

	flights singleflight.Group
	mu      sync.RWMutex
	byID    map[int32]registry.Schema
}

var _ registry.Registry = (*Client)(nil)

// New makes a client. transport carries the requests; nil means one of the client's own with the system's
// certificates.
func New(cfg Config, transport http.RoundTripper) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute}
	}
	return &Client{
		cfg:  cfg,
		base: strings.TrimRight(cfg.URL, "/"),
		http: &http.Client{Transport: transport, Timeout: cfg.Timeout},
		byID: map[int32]registry.Schema{},
	}, nil
}

// ByID implements registry.Registry. Concurrent calls for one id share one request, which outlives a caller that
// leaves.
func (c *Client) ByID(ctx context.Context, id int32) (registry.Schema, error) {
	if s, ok := c.cached(id); ok {
		return s, nil
	}
	flight := c.flights.DoChan(strconv.Itoa(int(id)), func() (any, error) {
		if s, ok := c.cached(id); ok {
			return s, nil
		}
		return c.fetchID(context.WithoutCancel(ctx), id)
	})
	select {
	case r := <-flight:
		if r.Err != nil {
			return registry.Schema{}, fmt.Errorf("get schema %d: %w", id, r.Err)
		}
		return r.Val.(registry.Schema), nil
	case <-ctx.Done():
		return registry.Schema{}, fmt.Errorf("get schema %d: %w", id, context.Cause(ctx))
	}
}

func (c *Client) cached(id int32) (registry.Schema, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.byID[id]
	return s, ok
}

func (c *Client) fetchID(ctx context.Context, id int32) (registry.Schema, error) {
	var wire wireSchema
	if err := c.get(ctx, "/schemas/ids/"+strconv.Itoa(int(id)), nil, &wire); err != nil {
		return registry.Schema{}, err
	}
	wire.ID = id // the answer does not repeat it
	s, err := c.resolve(ctx, wire)
	if err != nil {
		return registry.Schema{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[id] = s
	return s, nil
}

// Versions implements registry.Registry. Versions that were deleted softly are among them: records that were
// written with them are still in the log.
func (c *Client) Versions(ctx context.Context, subject string) ([]registry.Schema, error) {
	var numbers []int
	deletedToo := url.Values{"deleted": {"true"}}
	path := "/subjects/" + url.PathEscape(subject) + "/versions"
	if err := c.get(ctx, path, deletedToo, &numbers); err != nil {
		return nil, fmt.Errorf("list versions of %s: %w", subject, err)
	}
	all := make([]registry.Schema, 0, len(numbers))
	for _, n := range numbers {
		wire, err := c.version(ctx, subject, n)
		if err != nil {
			return nil, fmt.Errorf("get version %d of %s: %w", n, subject, err)
		}
		s, ok := c.cached(wire.ID)
		if !ok {
			if s, err = c.resolve(ctx, wire); err != nil {
				return nil, fmt.Errorf("get version %d of %s: %w", n, subject, err)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

func (c *Client) version(ctx context.Context, subject string, version int) (wireSchema, error) {
	var wire wireSchema
	path := "/subjects/" + url.PathEscape(subject) + "/versions/" + strconv.Itoa(version)
	return wire, c.get(ctx, path, url.Values{"deleted": {"true"}}, &wire)
}
