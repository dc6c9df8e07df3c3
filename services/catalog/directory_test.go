package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"

	"github.com/frazil-io/frazil/libs/fault"
)

// A topic that is called like a view is a table while no topic has that view, and again once it is given another name.
func TestATopicWithTheNameOfAView(t *testing.T) {
	w := newWorld(t)
	w.topic("orders__changes", 1, 3)
	loads := func(w *world, table, topic string) {
		t.Helper()
		if resp := w.load(&catalogv1.LoadTableRequest{Table: table}); resp.GetTopic() != topic {
			t.Errorf("table %s is topic %q, want %q", table, resp.GetTopic(), topic)
		}
	}
	loads(w, "orders__changes", "orders__changes")
	w.topic("orders", 1, 3)
	w.tick()
	_, err := w.tryLoad(&catalogv1.LoadTableRequest{Table: "orders__changes"})
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), `topic "orders__changes"`) || !strings.Contains(err.Error(), `topic "orders"`) ||
		!strings.Contains(err.Error(), "set tables.orders__changes.name") {
		t.Errorf("the name of a view of a topic that is there: %v", err)
	}
	loads(w, "orders", "orders")
	if page, err := w.ListTables(context.Background(), &catalogv1.ListTablesRequest{Namespace: "kafka"}); err != nil || len(page.GetTables()) != 2 {
		t.Errorf("listed %v, %v: who looks for the topic must find it", page, err)
	}
	named := &world{T: t, kafka: w.kafka, door: w.door, dedup: newFakeDedup(), clock: w.clock}
	named.Service = named.replica(func(c *Config) { c.Tables = map[string]TableConfig{"orders__changes": {Name: "order_log"}} })
	loads(named, "order_log", "orders__changes")
	loads(named, "orders", "orders")
}
