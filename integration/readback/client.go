// Package readback reads a served table as an engine would: REST catalog, metadata, manifest list, manifests,
// data files, delete files. It shares no code with what wrote them, so it can stand as a judge in tests.
// Only flat columns are read.
package readback

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Client reads tables of one warehouse. Safe for concurrent use.
type Client struct {
	REST      string // base URL of the catalog
	Warehouse string
	Namespace string
	Token     string
	HTTP      *http.Client

	mu   sync.Mutex
	gets map[string]int
}

// StatusError is an answer other than 200.
type StatusError struct {
	Code int
	Body string
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Code, e.Body) }

// Table is a loaded table.
type Table struct {
	MetadataLocation string            `json:"metadata-location"`
	Metadata         Metadata          `json:"metadata"`
	Config           map[string]string `json:"config"`
	client           *Client
}

// Metadata is the part of the table metadata that reading needs.
type Metadata struct {
	FormatVersion   int               `json:"format-version"`
	TableUUID       string            `json:"table-uuid"`
	Location        string            `json:"location"`
	CurrentSnapshot int64             `json:"current-snapshot-id"`
	Snapshots       []Snapshot        `json:"snapshots"`
	Properties      map[string]string `json:"properties"`
	NextRowID       int64             `json:"next-row-id"`
	Refs            map[string]Ref    `json:"refs"`
}

// Ref is a branch or a tag.
type Ref struct {
	SnapshotID int64  `json:"snapshot-id"`
	Type       string `json:"type"`
}

// Snapshot is one snapshot.
type Snapshot struct {
	ID           int64             `json:"snapshot-id"`
	TimestampMs  int64             `json:"timestamp-ms"`
	ManifestList string            `json:"manifest-list"`
	Summary      map[string]string `json:"summary"`
}

// Load loads a table.
func (c *Client) Load(ctx context.Context, table string) (*Table, error) {
	req, err := c.request(ctx, http.MethodGet, table, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Iceberg-Access-Delegation", "vended-credentials")
	body, err := c.do(req)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", table, err)
	}
	t := &Table{client: c}
	if err := json.Unmarshal(body, t); err != nil {
		return nil, fmt.Errorf("load %s: %w", table, err)
	}
	return t, nil
}

func (c *Client) request(ctx context.Context, method, table string, body io.Reader) (*http.Request, error) {
	u := fmt.Sprintf("%s/v1/%s/namespaces/%s/tables/%s", strings.TrimSuffix(c.REST, "/"), c.Warehouse, url.PathEscape(c.Namespace), url.PathEscape(table))
	req, err := http.NewRequestWithContext(ctx, method, u, body)
	if err == nil && c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return req, err
}

// Tag sets a tag of a table to a snapshot; 0 removes it.
func (c *Client) Tag(ctx context.Context, table, name string, snapshot int64) error {
	update := map[string]any{"action": "remove-snapshot-ref", "ref-name": name}
	if snapshot != 0 {
		update = map[string]any{"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot}
	}
	body, err := json.Marshal(map[string]any{"requirements": []any{}, "updates": []any{update}})
	if err != nil {
		return err
	}
	req, err := c.request(ctx, http.MethodPost, table, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if _, err := c.do(req); err != nil {
		return fmt.Errorf("tag %s of %s: %w", name, table, err)
	}
	return nil
}

// Gets answers how often each object was fetched so far.
func (c *Client) Gets() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]int, len(c.gets))
	for k, n := range c.gets {
		out[k] = n
	}
	return out
}

// Object fetches an object by its s3:// URI. rng is a Range header, or empty.
func (t *Table) Object(ctx context.Context, uri, rng string) ([]byte, error) {
	path, ok := strings.CutPrefix(uri, "s3://")
	if !ok {
		return nil, fmt.Errorf("object %q is not an s3 URI", uri)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(t.Config["s3.endpoint"], "/")+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	if rng != "" {
		req.Header.Set("Range", rng)
	}
	empty := sha256.Sum256(nil)
	creds := aws.Credentials{AccessKeyID: t.Config["s3.access-key-id"], SecretAccessKey: t.Config["s3.secret-access-key"], SessionToken: t.Config["s3.session-token"]}
	hash := hex.EncodeToString(empty[:])
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(ctx, creds, req, hash, "s3", "us-east-1", time.Now()); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	body, err := t.client.do(req)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", uri, err)
	}
	t.client.mu.Lock()
	if t.client.gets == nil {
		t.client.gets = map[string]int{}
	}
	t.client.gets[uri]++
	t.client.mu.Unlock()
	return body, nil
}

func (c *Client) do(req *http.Request) (_ []byte, err error) {
	res, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := res.Body.Close(); err == nil {
			err = cerr
		}
	}()
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		return nil, &StatusError{res.StatusCode, b.String()}
	}
	return b.Bytes(), nil
}
