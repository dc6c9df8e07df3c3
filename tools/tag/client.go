package tag

import (
	"context"
	"fmt"
	"net/http"

	"github.com/frazil-io/frazil/tools/internal/gateway"
)

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

func load(ctx context.Context, c *gateway.Client, name string) (*table, error) {
	t := &table{name: name}
	if err := c.Table(ctx, http.MethodGet, name, "", nil, t); err != nil {
		return nil, fmt.Errorf("load table %s: %w", name, err)
	}
	return t, nil
}

// commit makes one update of a ref, if table and ref are still what was loaded.
func commit(ctx context.Context, c *gateway.Client, t *table, ref string, update map[string]any) error {
	var was any
	if r, ok := t.Metadata.Refs[ref]; ok {
		was = r.Snapshot
	}
	return c.Table(ctx, http.MethodPost, t.name, "", map[string]any{
		"requirements": []map[string]any{
			{"type": "assert-table-uuid", "uuid": t.Metadata.UUID},
			{"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": was},
		},
		"updates": []map[string]any{update},
	}, nil)
}
