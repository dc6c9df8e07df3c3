package edge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/objectname"
)

// Config is the public face: listeners, authentication and what is vended.
type Config struct {
	REST        RESTConfig        `yaml:"rest"`
	S3          S3Config          `yaml:"s3"`
	Auth        AuthConfig        `yaml:"auth"`
	Credentials CredentialsConfig `yaml:"credentials"`
	Shutdown    ShutdownConfig    `yaml:"shutdown"`
}

// RESTConfig is the Iceberg REST catalog.
type RESTConfig struct {
	// Listen is host:port of the catalog's listener. Default 127.0.0.1:8181. Port 0 takes a free one.
	Listen string `yaml:"listen"`
	// PublicURI is the catalog's address as clients see it, if they must be told (a proxy that rewrites).
	// Default empty: clients keep the address that they were configured with.
	PublicURI string `yaml:"public_uri"`
	// DefaultWarehouse is the dialect of a client that names no warehouse: v2 or v3. Default v2.
	DefaultWarehouse string `yaml:"default_warehouse"`
}

// S3Config is the object endpoint.
type S3Config struct {
	// Listen is host:port of the S3 listener. Default 127.0.0.1:9000. Port 0 takes a free one.
	Listen string `yaml:"listen"`
	// PublicEndpoint is the endpoint that is vended: scheme, host and port, no path. Default empty: http and the
	// listen address; behind a wildcard address the host name that the client called the catalog by.
	PublicEndpoint string `yaml:"public_endpoint"`
	// Bucket is the one bucket: 3 to 63 characters, DNS-safe, no dots. Default frazil.
	Bucket string `yaml:"bucket"`
	// Domain also serves <bucket>.<domain> (virtual-host style). Default empty: path style only.
	Domain string `yaml:"domain"`
	// Region is what HeadBucket answers and what is vended; requests may be signed for any region.
	// Default us-east-1.
	Region string `yaml:"region"`
	// Hold is how long a GET waits for the first byte of an object that is still being made, before 503.
	// Default 25s; clients give up at 30s.
	Hold time.Duration `yaml:"hold"`
	// RequestTimeout is vended as s3.request-timeout. Default 300s; PyArrow's own is 3s.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// ConnectTimeout is vended as s3.connect-timeout. Default 10s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
}

// Authentication modes of the catalog.
const (
	AuthNone  = "none"  // no token; only on loopback
	AuthToken = "token" // bearer tokens of the configuration
)

// AuthConfig says who may read which table.
type AuthConfig struct {
	// Mode is none or token. Default empty: none if both listeners are loopback and no token is configured, else
	// token.
	Mode   string        `yaml:"mode"`
	Tokens []TokenConfig `yaml:"tokens"`
}

// TokenConfig is a bearer token and what its holder may see.
type TokenConfig struct {
	// Token is the secret, at least 16 characters.
	Token config.Secret `yaml:"token"`
	// Principal is the name in logs and in vended credentials, at most 128 bytes.
	Principal string `yaml:"principal"`
	// Tables are globs over table names (orders_*) or, with a dot, over namespace.table (kafka.orders_*). What
	// matches none is hidden: it answers 404 and is in no listing. At least one; "*" is everything.
	Tables []string `yaml:"tables"`
	// Write lets the holder set and remove tags of these tables. Default false. With auth.mode none everybody on
	// this machine may.
	Write bool `yaml:"write"`
}

// CredentialsConfig is about the vended S3 credentials.
type CredentialsConfig struct {
	// Lifetime of vended credentials; what a load answers has between half of it and the whole left.
	// Default 1h, at most 12h. Below 15m clients that refresh do so at every request.
	Lifetime time.Duration `yaml:"lifetime"`
	// Key signs the credentials, at least 32 characters, equal on all edges. Default empty: one that is made once
	// in the data directory.
	Key config.Secret `yaml:"key"`
	// PreviousKeys still verify and sign nothing: rotation without a gap. Default empty.
	PreviousKeys []config.Secret `yaml:"previous_keys"`
}

// ShutdownConfig orders the end: not ready, delay, drain, stop.
type ShutdownConfig struct {
	// Delay between not ready and closing the listeners, for load balancers to notice. Default 0.
	Delay time.Duration `yaml:"delay"`
	// Grace is how long running requests may take after that. Default 30s.
	Grace time.Duration `yaml:"grace"`
}

// Default answers the configuration of a single machine.
func Default() Config {
	return Config{
		REST: RESTConfig{Listen: "127.0.0.1:8181", DefaultWarehouse: objectname.V2},
		S3: S3Config{
			Listen: "127.0.0.1:9000", Bucket: "frazil", Region: "us-east-1",
			Hold: 25 * time.Second, RequestTimeout: 300 * time.Second, ConnectTimeout: 10 * time.Second,
		},
		Credentials: CredentialsConfig{Lifetime: time.Hour},
		Shutdown:    ShutdownConfig{Grace: 30 * time.Second},
	}
}

const (
	maxLifetime  = 12 * time.Hour
	minLifetime  = time.Minute
	lowLifetime  = 15 * time.Minute
	minTokenLen  = 16
	minKeyLen    = 32
	maxPrincipal = 128
	maxHold      = 30 * time.Second
)

// Validate reports everything that is wrong, joined, and what is merely unwise.
func (c Config) Validate() (warnings []error, err error) {
	errs := slices.Concat(c.validateREST(), c.validateS3(), c.validateAuth(), c.validateCredentials())
	if c.Shutdown.Delay < 0 || c.Shutdown.Grace <= 0 {
		errs = append(errs, errors.New("shutdown: delay must not be negative and grace must be positive"))
	}
	if c.Credentials.Lifetime >= minLifetime && c.Credentials.Lifetime < lowLifetime {
		warnings = append(warnings, fmt.Errorf("credentials.lifetime %v: below %v clients that refresh do so at every request", c.Credentials.Lifetime, lowLifetime))
	}
	if c.S3.Hold > maxHold {
		warnings = append(warnings, fmt.Errorf("s3.hold %v: most clients give up after %v", c.S3.Hold, maxHold))
	}
	if c.authMode() == AuthNone && len(c.Auth.Tokens) > 0 {
		warnings = append(warnings, errors.New("auth.tokens have no effect with auth.mode none"))
	}
	return warnings, errors.Join(errs...)
}

func (c Config) validateREST() (errs []error) {
	if _, _, err := net.SplitHostPort(c.REST.Listen); err != nil {
		errs = append(errs, fmt.Errorf("rest.listen: %w", err))
	}
	if c.REST.PublicURI != "" {
		u, err := url.Parse(c.REST.PublicURI)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			errs = append(errs, fmt.Errorf("rest.public_uri %q: want http(s)://host[:port][/path]", c.REST.PublicURI))
		}
	}
	if w := c.REST.DefaultWarehouse; w != objectname.V2 && w != objectname.V3 {
		errs = append(errs, fmt.Errorf("rest.default_warehouse %q: want v2 or v3", w))
	}
	return errs
}

func (c Config) validateS3() (errs []error) {
	if _, _, err := net.SplitHostPort(c.S3.Listen); err != nil {
		errs = append(errs, fmt.Errorf("s3.listen: %w", err))
	}
	if !validBucket(c.S3.Bucket) {
		errs = append(errs, fmt.Errorf("s3.bucket %q: want 3 to 63 of a-z, 0-9 and -, not at the ends", c.S3.Bucket))
	}
	if c.S3.PublicEndpoint != "" {
		u, err := url.Parse(c.S3.PublicEndpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
			errs = append(errs, fmt.Errorf("s3.public_endpoint %q: want http(s)://host[:port]", c.S3.PublicEndpoint))
		}
	}
	if strings.ContainsAny(c.S3.Domain, "/: ") || strings.HasPrefix(c.S3.Domain, ".") {
		errs = append(errs, fmt.Errorf("s3.domain %q: want a host name without port", c.S3.Domain))
	}
	if c.S3.Region == "" {
		errs = append(errs, errors.New("s3.region: must not be empty"))
	}
	if c.S3.Hold <= 0 || c.S3.RequestTimeout < time.Second || c.S3.ConnectTimeout < time.Second {
		errs = append(errs, errors.New("s3: hold must be positive, request_timeout and connect_timeout at least 1s"))
	}
	return errs
}

func (c Config) validateAuth() (errs []error) {
	switch c.authMode() {
	case AuthNone:
		if !c.loopback() {
			errs = append(errs, errors.New("auth.mode none: only allowed if rest.listen and s3.listen are loopback addresses"))
		}
	case AuthToken:
		if len(c.Auth.Tokens) == 0 {
			errs = append(errs, errors.New("auth.mode token: auth.tokens must name at least one token"))
		}
	default:
		errs = append(errs, fmt.Errorf("auth.mode %q: want none or token", c.Auth.Mode))
	}
	seen := map[config.Secret]bool{}
	for i, t := range c.Auth.Tokens {
		if len(t.Token.Reveal()) < minTokenLen || strings.ContainsAny(t.Token.Reveal(), " \t\r\n") {
			errs = append(errs, fmt.Errorf("auth.tokens[%d]: token must have at least %d characters and no blanks", i, minTokenLen))
		}
		if seen[t.Token] {
			errs = append(errs, fmt.Errorf("auth.tokens[%d]: token appears twice", i))
		}
		seen[t.Token] = true
		if t.Principal == "" || len(t.Principal) > maxPrincipal {
			errs = append(errs, fmt.Errorf("auth.tokens[%d]: principal must have 1 to %d bytes", i, maxPrincipal))
		}
		if len(t.Tables) == 0 {
			errs = append(errs, fmt.Errorf(`auth.tokens[%d]: tables must name at least one glob ("*" is every table)`, i))
		}
		for _, g := range t.Tables {
			if _, err := path.Match(g, "x"); err != nil || g == "" {
				errs = append(errs, fmt.Errorf("auth.tokens[%d]: table glob %q is malformed", i, g))
			}
		}
	}
	return errs
}

func (c Config) validateCredentials() (errs []error) {
	if c.Credentials.Lifetime < minLifetime || c.Credentials.Lifetime > maxLifetime {
		errs = append(errs, fmt.Errorf("credentials.lifetime %v: want %v to %v", c.Credentials.Lifetime, minLifetime, maxLifetime))
	}
	for i, k := range append([]config.Secret{c.Credentials.Key}, c.Credentials.PreviousKeys...) {
		if len(k.Reveal()) < minKeyLen && (i > 0 || !k.Empty()) {
			errs = append(errs, fmt.Errorf("credentials: every key must have at least %d characters", minKeyLen))
		}
	}
	return errs
}

// authMode is the mode in force: an empty one follows the listeners and the tokens.
func (c Config) authMode() string {
	switch {
	case c.Auth.Mode != "":
		return c.Auth.Mode
	case c.loopback() && len(c.Auth.Tokens) == 0:
		return AuthNone
	}
	return AuthToken
}

func (c Config) loopback() bool { return isLoopback(c.REST.Listen) && isLoopback(c.S3.Listen) }

func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func validBucket(b string) bool {
	if len(b) < 3 || len(b) > 63 || b[0] == '-' || b[len(b)-1] == '-' {
		return false
	}
	for i := range len(b) {
		if c := b[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
