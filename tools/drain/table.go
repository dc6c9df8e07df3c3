package drain

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
)

// table adapts a table of a catalog to drain.Catalog.
type table struct {
	catalog *catalogs.Catalog
	name    string
}

// Load implements drain.Catalog.
func (t *table) Load(ctx context.Context) (*drain.Table, error) {
	loaded, err := t.catalog.Load(ctx, t.name)
	if err != nil {
		return nil, err
	}
	return &drain.Table{
		Base:  icebergcommit.Base{Raw: loaded.Raw, Meta: loaded.Meta},
		Store: loaded.Store, Origin: loaded,
	}, nil
}

// Commit implements drain.Catalog.
func (t *table) Commit(ctx context.Context, of *drain.Table, c *icebergcommit.Commit) error {
	loaded, ok := of.Origin.(*catalogs.Table)
	if !ok {
		return fmt.Errorf("a table of another catalog: %w", fault.ErrInvalid)
	}
	return t.catalog.Commit(ctx, loaded, c)
}
