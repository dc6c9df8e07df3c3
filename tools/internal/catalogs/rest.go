package catalogs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// restCatalog talks to an Iceberg REST catalog (open API of apache/iceberg, "rest-catalog-open-api.yaml").
type restCatalog struct {
	door      *door
	base      string // with /v1 and the prefix, without a slash at its end
	separator string // between levels of a namespace, as it stands in a URL
	props     map[string]string
}

// openREST asks for the catalog's configuration: its defaults lie under what the user said, its overrides over it.
func openREST(ctx context.Context, c *Config, client *http.Client) (*restCatalog, error) {
	props := map[string]string{}
	maps.Copy(props, c.Properties)
	d, err := newDoor(ctx, c, client)
	if err != nil {
		return nil, err
	}
	root := strings.TrimSuffix(c.URI, "/")
	ask := root + "/v1/config"
	if c.Warehouse != "" {
		ask += "?warehouse=" + url.QueryEscape(c.Warehouse)
	}
	var answer struct {
		Defaults  map[string]string `json:"defaults"`
		Overrides map[string]string `json:"overrides"`
	}
	if err := d.get(ctx, ask, &answer); err != nil {
		return nil, fmt.Errorf("ask for the configuration: %w", err)
	}
	merged := map[string]string{}
	maps.Copy(merged, answer.Defaults)
	maps.Copy(merged, props)
	maps.Copy(merged, answer.Overrides)
	if u := answer.Overrides["uri"]; u != "" {
		root = strings.TrimSuffix(u, "/")
	}
	r := &restCatalog{door: d, base: root + "/v1", separator: "%1F", props: merged}
	if p := merged["prefix"]; p != "" {
		r.base += "/" + escapePath(p)
	}
	if s := merged["namespace-separator"]; s != "" {
		r.separator = s
	}
	return r, nil
}

// escapePath escapes each part of a path that may have several.
func escapePath(p string) string {
	parts := strings.Split(strings.Trim(p, "/"), "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

func (r *restCatalog) Close() error { return nil }

// loadAnswer is LoadTableResult of the API.
type loadAnswer struct {
	Location    string            `json:"metadata-location"`
	Metadata    json.RawMessage   `json:"metadata"`
	Config      map[string]string `json:"config"`
	Credentials []struct {
		Prefix string            `json:"prefix"`
		Config map[string]string `json:"config"`
	} `json:"storage-credentials"`
}

// at answers the URL of a table.
func (r *restCatalog) at(ident []string) string {
	levels := make([]string, 0, len(ident)-1)
	for _, l := range ident[:len(ident)-1] {
		levels = append(levels, url.PathEscape(l))
	}
	return r.base + "/namespaces/" + strings.Join(levels, r.separator) + "/tables/" + url.PathEscape(ident[len(ident)-1])
}

func (r *restCatalog) load(ctx context.Context, ident []string) (*entry, error) {
	var a loadAnswer
	if err := r.door.get(ctx, r.at(ident), &a); err != nil {
		return nil, err
	}
	if len(a.Metadata) == 0 {
		return nil, fmt.Errorf("the catalog answered no metadata: %w", fault.ErrCorrupt)
	}
	var where struct {
		Location string `json:"location"`
	}
	if err := json.Unmarshal(a.Metadata, &where); err != nil {
		return nil, fmt.Errorf("metadata: %w: %w", fault.ErrCorrupt, err)
	}
	if a.Location == "" {
		a.Location = where.Location
	}
	e := &entry{location: a.Location, metadata: a.Metadata, props: map[string]string{}}
	maps.Copy(e.props, r.props)
	maps.Copy(e.props, a.Config)
	maps.Copy(e.props, a.credentials(where.Location))
	// They are the catalog's, and a store would take a token for its own.
	for _, key := range []string{"token", "credential"} {
		delete(e.props, key)
	}
	return e, nil
}

// credentials answers those of the longest prefix of the location, as the API asks for.
func (a *loadAnswer) credentials(location string) map[string]string {
	best, length := map[string]string(nil), -1
	for _, c := range a.Credentials {
		if strings.HasPrefix(location, c.Prefix) && len(c.Prefix) > length {
			best, length = c.Config, len(c.Prefix)
		}
	}
	return best
}
