package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

// world is a broker, a registry and a gateway between them and the engines.
type world struct {
	broker   harness.Broker
	admin    *harness.Admin
	registry *harness.Registry
	gateway  *harness.Frazil
}

// newWorld starts a broker of the present scale, a registry and a gateway that needs no tokens.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{broker: harness.StartBroker(t)}
	w.admin = harness.NewAdmin(t, w.broker)
	w.registry = harness.StartRegistry(t, registryDump(t))
	w.gateway = harness.StartFrazil(t, harness.Options{Brokers: w.broker.Addr(), Registry: w.registry.URL()})
	return w
}

func registryDump(t *testing.T) string {
	return filepath.Join(harness.Root(t), "integration", "testdata", "registry-schemas.json")
}

// dialects are the warehouses.
func dialects() []string { return []string{"v2", "v3"} }

// catalogs are the warehouses of a gateway, as the engines are told.
func catalogs(f *harness.Frazil, token string) map[string]harness.Catalog {
	all := map[string]harness.Catalog{}
	for _, d := range dialects() {
		all[d] = harness.Catalog{URI: f.REST, Warehouse: d, Token: token}
	}
	return all
}

// reader reads tables as an engine would, in this process.
func reader(f *harness.Frazil, dialect string) *readback.Client {
	return &readback.Client{REST: f.REST, Warehouse: dialect, Namespace: harness.Namespace, HTTP: http.DefaultClient}
}

// load loads a topic's table until its current snapshot shows the log up to the ends, by partition.
func load(t *testing.T, f *harness.Frazil, dialect, topic string, ends ...int64) *readback.Table {
	t.Helper()
	var table *readback.Table
	harness.Eventually(t, fmt.Sprintf("%s of %s shows %v", dialect, topic, ends), func() error {
		var err error
		table, err = reader(f, dialect).Load(t.Context(), harness.TableName(topic))
		var refused *readback.StatusError
		if errors.As(err, &refused) && refused.Code != http.StatusServiceUnavailable {
			t.Fatalf("load %s: %v", topic, err)
		}
		if err != nil {
			return err
		}
		return shows(table, ends)
	})
	return table
}

// shows compares the current snapshot's ends.
func shows(table *readback.Table, ends []int64) error {
	current, err := table.Snapshot(table.Metadata.CurrentSnapshot)
	if err != nil {
		return err
	}
	for p, want := range ends {
		if got := current.Summary["frazil.end."+strconv.Itoa(p)]; got != strconv.FormatInt(want, 10) {
			return fmt.Errorf("partition %d ends at %q, want %d", p, got, want)
		}
	}
	return nil
}

// names are the data and delete files of a snapshot.
func names(ctx context.Context, t *testing.T, table *readback.Table, snapshot int64) map[string]bool {
	t.Helper()
	files, err := table.Files(ctx, snapshot)
	if err != nil {
		t.Fatalf("files of snapshot %d: %v", snapshot, err)
	}
	all := map[string]bool{}
	for _, f := range files {
		all[f.Path] = true
		if f.Deletes != nil {
			all[f.Deletes.Path] = true
		}
	}
	return all
}
