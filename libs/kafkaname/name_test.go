package kafkaname

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
)

func TestTable(t *testing.T) {
	for topic, want := range map[string]string{
		"orders": "orders", "Shop.Public-Orders": "shop_public_orders", "a_b9": "a_b9", "x%y": "x_y",
	} {
		if got := Table(topic); got != want || !ValidTable(got) {
			t.Errorf("Table(%q) = %q, want %q", topic, got, want)
		}
	}
	for _, bad := range []string{"", "Orders", "a-b", "a.b", "ä"} {
		if ValidTable(bad) {
			t.Errorf("%q is a table name", bad)
		}
	}
}

func list(topics ...string) *Listing {
	var all []Named
	for _, t := range topics {
		all = append(all, Named{Topic: t, Table: Table(t)})
	}
	return NewListing(all)
}

func TestCollisionNamesBoth(t *testing.T) {
	l := list("shop.orders", "shop-orders", "plain")
	_, err := l.Topic("shop_orders")
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "shop.orders") || !strings.Contains(err.Error(), "shop-orders") {
		t.Errorf("collision: %v", err)
	}
	if page, _ := l.Page("", 0); len(page) != 2 {
		t.Errorf("listed %v: colliding topics are listed once", page)
	}
	if topic, err := l.Topic("plain"); topic != "plain" || err != nil {
		t.Errorf("plain: %q %v", topic, err)
	}
	if _, err := l.Topic("nothing"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
}

func TestViewNamesAreTaken(t *testing.T) {
	l := list("orders", "orders__changes", "other__errors")
	_, err := l.Topic("orders__changes")
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), `"orders"`) {
		t.Errorf("a topic with a view's name: %v", err)
	}
	if clashes := l.Clashes(); len(clashes) != 1 || clashes[0].Error() != err.Error() {
		t.Errorf("clashes %v, want the one", clashes)
	}
	for _, fine := range []string{"orders", "other__errors"} {
		if _, err := l.Topic(fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

// Pages of any size put together are the whole listing, whatever comes and goes at the token.
func TestPaging(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var topics []string
	for range 100 {
		topics = append(topics, string([]byte{'a' + byte(r.IntN(26)), 'a' + byte(r.IntN(26)), '0' + byte(r.IntN(10))}))
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	l := list(topics...)
	for _, size := range []int{0, 1, 7, 1000} {
		var got []string
		for after, more := "", true; more; {
			var page []Named
			page, more = l.Page(after, size)
			for _, n := range page {
				got = append(got, n.Table)
				after = n.Table
			}
		}
		if !slices.Equal(got, topics) {
			t.Errorf("size %d: %d names, want %d", size, len(got), len(topics))
		}
	}
	if page, _ := l.Page("zzzz", 5); len(page) != 0 {
		t.Errorf("after the end: %v", page)
	}
}

func TestInternal(t *testing.T) {
	topics := []string{"shop.public.orders", "shop.transaction", "bank.transaction"}
	in := NewInternal(topics)
	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__debezium-heartbeat.shop", "_schemas",
		"connect-configs", "connect-offsets", "connect-status", "my_connect_configs", "my_connect_statuses", "prod.connect-offsets",
		"mm2-offset-syncs.a.internal", "a.checkpoints.internal", "app-store-changelog", "app-x-repartition",
		"shop.transaction", "schema-changes.inventory", "shop.schema-history", "dbhistory.shop", "schemahistory", "_confluent-metrics"} {
		if !in.Match(name) {
			t.Errorf("%s counts as a table", name)
		}
	}
	for _, name := range []string{"orders", "shop.public.orders", "bank.transaction", "transaction", "connections", "changelog",
		"a.internals", "connect", "shop.public.connect_config_values", "order_history", "my_schemas"} {
		if in.Match(name) {
			t.Errorf("%s counts as internal", name)
		}
	}
}
