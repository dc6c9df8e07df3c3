// Package gateway is what the commands that ask a running Frazil share: where it is, and requests about a table to its
// REST catalog.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// timeout of one request: a first load waits for 20 s at most.
	timeout = time.Minute
	// maxAnswer bounds what is read, bytes.
	maxAnswer = 64 << 20
	// maxToken bounds what is read of a token on standard input, bytes.
	maxToken = 1 << 16
)

// Flags say which catalog, warehouse and namespace are asked, and with which token.
type Flags struct {
	catalog, warehouse, namespace, tokenFile string
}

// Register adds the flags to f; same is what the answer has in common in both warehouses, as "tags are".
func (o *Flags) Register(f *flag.FlagSet, same string) {
	f.StringVar(&o.catalog, "catalog", "http://127.0.0.1:8181", "`URL` of the REST catalog")
	f.StringVar(&o.warehouse, "warehouse", "v2", "`WAREHOUSE`, v2 or v3: "+same+" the same in both")
	f.StringVar(&o.namespace, "namespace", "kafka", "`NAMESPACE` of the table")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the bearer token; - is standard input")
}

// Client asks about the tables of one namespace. Safe for concurrent use.
type Client struct {
	flags Flags
	token string
}

// Open reads the token; in is standard input.
func (o *Flags) Open(in io.Reader) (*Client, error) {
	var raw []byte
	var err error
	switch o.tokenFile {
	case "":
	case "-":
		raw, err = io.ReadAll(io.LimitReader(in, maxToken))
	default:
		raw, err = os.ReadFile(o.tokenFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	return &Client{flags: *o, token: strings.TrimSpace(string(raw))}, nil
}

// Table asks for what lies at suffix below a table, "" for the table itself, and decodes the answer into out, nil to
// ignore it. A body that is not nil is sent as JSON. Every status but 200 is an error that says what the catalog said.
func (c *Client) Table(ctx context.Context, method, table, suffix string, body, out any) error {
	at := strings.TrimRight(c.flags.catalog, "/") + "/v1/" + url.PathEscape(c.flags.warehouse) +
		"/namespaces/" + url.PathEscape(c.flags.namespace) + "/tables/" + url.PathEscape(table) + suffix
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	raw, err := c.do(ctx, method, at, sent)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the answer is of another kind: %w", err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, at string, body []byte) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := res.Body.Close(); err == nil {
			err = cerr
		}
	}()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return raw, nil
	}
	var refused struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &refused) != nil || refused.Error.Message == "" {
		return nil, fmt.Errorf("the catalog answered %s", res.Status)
	}
	return nil, fmt.Errorf("%s (%d)", refused.Error.Message, res.StatusCode)
}
