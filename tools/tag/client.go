package tag

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// timeout of one request: a first load waits for 20 s at most.
	timeout = time.Minute
	// maxAnswer bounds what is read, bytes.
	maxAnswer = 64 << 20
)

// client speaks to the REST catalog of one warehouse.
type client struct {
	base, warehouse, namespace, token string
}

// table is what a load answers, as far as tags need it.
type table struct {
	name     string
	Metadata struct {
		UUID      string `json:"table-uuid"`
		Current   int64  `json:"current-snapshot-id"`
		Snapshots []struct {
			ID     int64 `json:"snapshot-id"`
			TimeMs int64 `json:"timestamp-ms"`
		} `json:"snapshots"`
		Refs map[string]struct {
			Snapshot int64  `json:"snapshot-id"`
			Type     string `json:"type"`
		} `json:"refs"`
	} `json:"metadata"`
}

func (c *client) path(name string) string {
	return c.base + "/v1/" + url.PathEscape(c.warehouse) + "/namespaces/" + url.PathEscape(c.namespace) + "/tables/" + url.PathEscape(name)
}

func (c *client) load(ctx context.Context, name string) (*table, error) {
	t := &table{name: name}
	raw, err := c.do(ctx, http.MethodGet, c.path(name), nil)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", name, err)
	}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("load table %s: the answer is no table: %w", name, err)
	}
	return t, nil
}

// commit makes one update of a ref, if table and ref are still what was loaded.
func (c *client) commit(ctx context.Context, t *table, ref string, update map[string]any) error {
	var was any
	if r, ok := t.Metadata.Refs[ref]; ok {
		was = r.Snapshot
	}
	body, err := json.Marshal(map[string]any{
		"requirements": []map[string]any{
			{"type": "assert-table-uuid", "uuid": t.Metadata.UUID},
			{"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": was},
		},
		"updates": []map[string]any{update},
	})
	if err != nil {
		return fmt.Errorf("encode the commit: %w", err)
	}
	_, err = c.do(ctx, http.MethodPost, c.path(t.name), body)
	return err
}

func (c *client) do(ctx context.Context, method, url string, body []byte) (_ []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
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
	if err := json.Unmarshal(raw, &refused); err != nil || refused.Error.Message == "" {
		return nil, fmt.Errorf("the catalog answered %s", res.Status)
	}
	return nil, fmt.Errorf("%s (%d)", refused.Error.Message, res.StatusCode)
}
