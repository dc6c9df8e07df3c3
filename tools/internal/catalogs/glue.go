package catalogs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// glueCatalog reads from the AWS Glue Data Catalog by its JSON API: one call is used of it, which is no reason to
// carry its SDK.
type glueCatalog struct {
	door      *door
	endpoint  string
	catalogID string // "" = the caller's account
}

func openGlue(ctx context.Context, c *Config, client *http.Client) (*glueCatalog, error) {
	s, err := newSigner(ctx, c.Properties, "glue.", "glue.region", "glue")
	if err != nil {
		return nil, err
	}
	g := &glueCatalog{door: &door{client: client, sigv4: s}, endpoint: c.Properties["glue.endpoint"], catalogID: c.Properties["glue.id"]}
	if g.endpoint == "" {
		g.endpoint = "https://glue." + s.region + ".amazonaws.com/"
		if strings.HasPrefix(s.region, "cn-") {
			g.endpoint = "https://glue." + s.region + ".amazonaws.com.cn/"
		}
	}
	return g, nil
}

func (g *glueCatalog) Close() error { return nil }

func (g *glueCatalog) load(ctx context.Context, ident []string) (*entry, error) {
	if len(ident) != 2 {
		return nil, fmt.Errorf("Glue has databases of one level: %w", fault.ErrInvalid)
	}
	body, err := json.Marshal(struct {
		CatalogID string `json:"CatalogId,omitempty"`
		Database  string `json:"DatabaseName"`
		Name      string `json:"Name"`
	}{g.catalogID, ident[0], ident[1]})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	var a struct {
		Table json.RawMessage `json:"Table"`
	}
	headers := map[string]string{"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AWSGlue.GetTable"}
	if err := g.door.do(ctx, http.MethodPost, g.endpoint, headers, body, &a); err != nil {
		return nil, err
	}
	var table struct {
		Parameters map[string]string `json:"Parameters"`
	}
	if err := json.Unmarshal(a.Table, &table); err != nil {
		return nil, fmt.Errorf("table of Glue: %w: %w", fault.ErrCorrupt, err)
	}
	location := table.Parameters["metadata_location"]
	if location == "" || !strings.EqualFold(table.Parameters["table_type"], "iceberg") {
		return nil, fmt.Errorf("not an Iceberg table: %w", fault.ErrInvalid)
	}
	return &entry{location: location, origin: a.Table}, nil
}
