package catalogs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/frazil-io/frazil/libs/fault"
)

// door makes authenticated requests to a catalog. Safe for concurrent use.
type door struct {
	client  *http.Client
	headers map[string]string
	oauth   *oauth  // nil = none
	sigv4   *signer // nil = none
	token   string  // a bearer token that was given
}

// newDoor reads how to authenticate: --token, --credential, or rest.sigv4-enabled, by the names of Iceberg's
// properties.
func newDoor(ctx context.Context, c *Config, client *http.Client) (*door, error) {
	d := &door{client: client, token: c.Token.Reveal(), headers: map[string]string{
		"Accept":                      "application/json",
		"X-Iceberg-Access-Delegation": "vended-credentials",
	}}
	for key, value := range c.Properties {
		if name, ok := strings.CutPrefix(key, "header."); ok {
			d.headers[name] = value
		}
	}
	if d.token == "" && !c.Credential.Empty() {
		d.oauth = newOAuth(c, client)
	}
	if on, err := strconv.ParseBool(c.Properties["rest.sigv4-enabled"]); err == nil && on {
		name := c.Properties["rest.signing-name"]
		if name == "" {
			name = "execute-api"
		}
		if d.sigv4, err = newSigner(ctx, c.Properties, "rest.", "rest.signing-region", name); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// attempts of a request that a catalog was not ready for.
const attempts = 4

// get asks for JSON. Requests that the catalog was not ready for are repeated. Errors: the kinds that the status
// stands for.
func (d *door) get(ctx context.Context, at string, into any) error {
	return d.do(ctx, http.MethodGet, at, nil, nil, into)
}

// do makes a request that changes nothing, so that it may be repeated.
func (d *door) do(ctx context.Context, method, at string, headers map[string]string, body []byte, into any) error {
	pause := 500 * time.Millisecond
	for try := 1; ; try++ {
		err := d.once(ctx, method, at, headers, body, into)
		if err == nil || !errors.Is(err, fault.ErrUnavailable) || try == attempts {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause *= 2
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

func (d *door) once(ctx context.Context, method, at string, headers map[string]string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrInvalid, err)
	}
	for _, set := range []map[string]string{d.headers, headers} {
		for k, v := range set {
			req.Header.Set(k, v)
		}
	}
	token := d.token
	if d.oauth != nil {
		if token, err = d.oauth.get(ctx); err != nil {
			return err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if d.sigv4 != nil {
		if err := d.sigv4.sign(ctx, req, body); err != nil {
			return err
		}
	}
	return roundTrip(d.client, req, into)
}

// roundTrip sends a request and decodes the answer.
func roundTrip(client *http.Client, req *http.Request, into any) error {
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata))
	if err != nil {
		return fmt.Errorf("%w: read the answer: %w", fault.ErrUnavailable, err)
	}
	if resp.StatusCode/100 != 2 {
		return statusError(resp, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the answer is not what the API says: %w: %w", fault.ErrCorrupt, err)
	}
	return nil
}

// statusError puts a kind on an answer, with the message that REST catalogs, OAuth servers and AWS put into it.
func statusError(resp *http.Response, text []byte) error {
	kind := fault.ErrUnavailable
	switch s := resp.StatusCode; {
	case s == http.StatusNotFound:
		kind = fault.ErrNotFound
	case s == http.StatusUnauthorized, s == 419: // 419: expired, in the API
		kind = fault.ErrUnauthenticated
	case s == http.StatusForbidden:
		kind = fault.ErrDenied
	case s == http.StatusTooManyRequests:
		kind = fault.ErrUnavailable
	case s == http.StatusConflict:
		kind = fault.ErrConflict
	case s/100 == 4:
		kind = fault.ErrInvalid
	}
	var body struct {
		Error   json.RawMessage `json:"error"`
		Text    string          `json:"error_description"`
		Type    string          `json:"__type"`
		Message string          `json:"message"`
	}
	said := ""
	if json.Unmarshal(text, &body) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(body.Error, &inner) == nil {
			said = inner.Message
		}
		said = strings.TrimSpace(strings.Join([]string{said, body.Text, body.Message}, " "))
		if strings.HasSuffix(body.Type, "EntityNotFoundException") {
			kind = fault.ErrNotFound
		}
		if strings.HasSuffix(body.Type, "AccessDeniedException") {
			kind = fault.ErrDenied
		}
		if strings.HasSuffix(body.Type, "ConcurrentModificationException") {
			kind = fault.ErrConflict
		}
	}
	if said == "" {
		return fmt.Errorf("%s: %w", resp.Status, kind)
	}
	return fmt.Errorf("%s: %s: %w", resp.Status, said, kind)
}

// oauth gets tokens for a client id and secret, and again when they expire.
type oauth struct {
	client *http.Client
	server string
	form   url.Values

	mu    sync.Mutex
	token string
	until time.Time // zero = for ever
}

func newOAuth(c *Config, client *http.Client) *oauth {
	id, secret, ok := strings.Cut(c.Credential.Reveal(), ":")
	if !ok { // a secret alone, as the API allows
		id, secret = "", id
	}
	o := &oauth{client: client, server: c.Properties["oauth2-server-uri"], form: url.Values{"grant_type": {"client_credentials"}, "client_secret": {secret}, "scope": {"catalog"}}}
	if id != "" {
		o.form.Set("client_id", id)
	}
	if o.server == "" {
		o.server = strings.TrimSuffix(c.URI, "/") + "/v1/oauth/tokens"
	}
	for _, key := range []string{"scope", "audience", "resource"} {
		if v := c.Properties[key]; v != "" {
			o.form.Set(key, v)
		}
	}
	return o
}

// tokenMargin is how long before its end a token is replaced.
const tokenMargin = 30 * time.Second

func (o *oauth) get(ctx context.Context) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.token != "" && (o.until.IsZero() || time.Now().Before(o.until)) {
		return o.token, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.server, strings.NewReader(o.form.Encode()))
	if err != nil {
		return "", fmt.Errorf("%w: %w", fault.ErrInvalid, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var a struct {
		Token     string `json:"access_token"`
		ExpiresIn int64  `json:"expires_in"` // seconds
	}
	if err := roundTrip(o.client, req, &a); err != nil {
		if errors.Is(err, fault.ErrInvalid) { // invalid_client comes as 400, too
			err = fmt.Errorf("%w: %w", fault.ErrUnauthenticated, err)
		}
		return "", fmt.Errorf("get a token: %w", err)
	}
	if a.Token == "" {
		return "", fmt.Errorf("get a token: the answer has none: %w", fault.ErrCorrupt)
	}
	o.token, o.until = a.Token, time.Time{}
	if a.ExpiresIn > 0 {
		o.until = time.Now().Add(time.Duration(a.ExpiresIn)*time.Second - tokenMargin)
	}
	return o.token, nil
}

// signer signs requests for AWS (Signature Version 4).
type signer struct {
	keys            aws.CredentialsProvider
	region, service string
	v4              *v4.Signer
}

// newSigner takes keys from the properties that begin with prefix, or else as AWS' own tools do.
func newSigner(ctx context.Context, props map[string]string, prefix, regionKey, service string) (*signer, error) {
	region := props[regionKey]
	if region == "" {
		region = props["client.region"]
	}
	var options []func(*awsconfig.LoadOptions) error
	if region != "" {
		options = append(options, awsconfig.WithRegion(region))
	}
	if id := props[prefix+"access-key-id"]; id != "" {
		options = append(options, awsconfig.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(id, props[prefix+"secret-access-key"], props[prefix+"session-token"])))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("configuration of AWS: %w: %w", fault.ErrInvalid, err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("no AWS region: --prop %s=...: %w", regionKey, fault.ErrInvalid)
	}
	return &signer{keys: cfg.Credentials, region: cfg.Region, service: service, v4: v4.NewSigner()}, nil
}

func (s *signer) sign(ctx context.Context, req *http.Request, body []byte) error {
	keys, err := s.keys.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("credentials of AWS: %w: %w", fault.ErrUnauthenticated, err)
	}
	sum := sha256.Sum256(body)
	if err := s.v4.SignHTTP(ctx, keys, req, hex.EncodeToString(sum[:]), s.service, s.region, time.Now()); err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	return nil
}
