package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

func orders(format string) captured { return captured{format: format, table: "orders"} }

// code is the status of a refused request, 0 if it was not refused.
func code(t *testing.T, err error) int {
	t.Helper()
	var refused *readback.StatusError
	if err == nil {
		return 0
	}
	if !errors.As(err, &refused) {
		t.Fatalf("not an answer: %v", err)
	}
	return refused.Code
}

func TestATopicThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	status, kind, message := w.gateway.Refusal(t, "v2", "no_such_topic", "")
	if status != http.StatusNotFound || kind != "NoSuchTableException" {
		t.Errorf("%d %s: %s", status, kind, message)
	}
}

// TestTheRegistryAway: a table that needs it says so and comes when the registry does; nothing is decided meanwhile.
func TestTheRegistryAway(t *testing.T) {
	w := newWorld(t)
	c := orders("pgavro")
	records := harness.Captured(t, c.file(t))
	w.admin.Replay(t, c.topic(), records)
	w.registry.Stop()
	if status, kind, message := w.gateway.Refusal(t, "v2", harness.TableName(c.topic()), ""); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s: %s", status, kind, message)
	}
	w.registry.Start(t)
	table := load(t, w.gateway, "v2", c.topic(), int64(len(records)))
	if rows, err := table.Rows(t.Context(), 0); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// TestTheBrokerAway: at the start, and later while the last cut goes on being served.
func TestTheBrokerAway(t *testing.T) {
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	c := orders("pgjson")
	records := harness.Captured(t, c.file(t))
	admin.Replay(t, c.topic(), records[:4])
	broker.Stop(t)
	f := harness.NewFrazil(t, harness.Options{Brokers: broker.Addr(), Config: "freshness: {load_wait: 1s}\n"})
	f.Launch(t)
	f.Await(t, "/livez")
	if status, _, err := f.Get(t.Context(), "/readyz", ""); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("ready without a broker: %d, %v", status, err)
	}
	if status, kind, message := f.Refusal(t, "v2", harness.TableName(c.topic()), ""); status != http.StatusServiceUnavailable {
		t.Errorf("without a broker: %d %s: %s", status, kind, message)
	}
	broker.Start(t)
	f.Await(t, "/readyz")
	table := load(t, f, "v2", c.topic(), 4)
	broker.Stop(t)
	harness.Eventually(t, "the table says since when it is behind", func() error {
		now, err := reader(f, "v2").Load(t.Context(), harness.TableName(c.topic()))
		if err != nil {
			return err
		}
		if now.Metadata.CurrentSnapshot != table.Metadata.CurrentSnapshot {
			t.Fatalf("snapshot %d without a broker, want %d", now.Metadata.CurrentSnapshot, table.Metadata.CurrentSnapshot)
		}
		if now.Metadata.Properties["frazil.stale-since"] == "" {
			return errText("not yet")
		}
		return nil
	})
	if rows, err := table.Rows(t.Context(), 0); err != nil || len(rows) != 3 {
		t.Errorf("%d rows without a broker, %v; want 3", len(rows), err)
	}
	broker.Start(t)
	admin.Append(t, c.topic(), 0, records[4:]...)
	table = load(t, f, "v2", c.topic(), int64(len(records)))
	if rows, err := table.Rows(t.Context(), 0); err != nil || len(rows) != 2 {
		t.Errorf("%d rows after the broker came back, %v; want 2", len(rows), err)
	}
}

// dataFile is a live data file of a table, as a path.
func dataFile(t *testing.T, table *readback.Table) readback.DataFile {
	t.Helper()
	files, err := table.Files(t.Context(), 0)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files[0]
}

func TestARangeBeyondTheEnd(t *testing.T) {
	w := newWorld(t)
	c := orders("pgjson")
	w.admin.Replay(t, c.topic(), harness.Captured(t, c.file(t)))
	table := load(t, w.gateway, "v2", c.topic(), 12)
	f := dataFile(t, table)
	if _, err := table.Object(t.Context(), f.Path, fmt.Sprintf("bytes=%d-", f.Size)); code(t, err) != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range from the end on: %v", err)
	}
	last, err := table.Object(t.Context(), f.Path, fmt.Sprintf("bytes=%d-%d", f.Size-4, f.Size+100))
	if err != nil || string(last) != "PAR1" {
		t.Errorf("a range across the end: %q, %v", last, err)
	}
	suffix, err := table.Object(t.Context(), f.Path, "bytes=-4")
	if err != nil || string(suffix) != "PAR1" {
		t.Errorf("a suffix: %q, %v", suffix, err)
	}
}

// TestATopicThatWasReCreated (C53): the table is the new topic's alone, and a path of the old one is gone for good.
func TestATopicThatWasReCreated(t *testing.T) {
	w := newWorld(t)
	c := orders("pgjson")
	records := harness.Captured(t, c.file(t))
	w.admin.Replay(t, c.topic(), records[:5])
	before := load(t, w.gateway, "v2", c.topic(), 5)
	path := dataFile(t, before).Path
	if _, err := before.Object(t.Context(), path, ""); err != nil {
		t.Fatal(err)
	}
	w.admin.Delete(t, c.topic())
	again := harness.Captured(t, c.file(t))
	w.admin.Replay(t, c.topic(), again[7:])
	after := load(t, w.gateway, "v2", c.topic(), 5)
	harness.Eventually(t, "the table is the new topic's", func() error {
		if after.Metadata.TableUUID == before.Metadata.TableUUID {
			after = load(t, w.gateway, "v2", c.topic(), 5)
			return errText("it has the old table's UUID")
		}
		return nil
	})
	if after.Metadata.Location == before.Metadata.Location {
		t.Errorf("both are at %s", after.Metadata.Location)
	}
	rows, err := after.Rows(t.Context(), 0)
	var at []string
	for _, r := range rows {
		at = append(at, fmt.Sprint(r["kafka_offset"]))
	}
	if slices.Sort(at); err != nil || !slices.Equal(at, []string{"3", "4"}) {
		t.Errorf("rows at %v, %v; want 3 and 4", at, err)
	}
	if _, err := before.Object(t.Context(), path, ""); code(t, err) != http.StatusNotFound || !strings.Contains(err.Error(), "NoSuchKey") ||
		!strings.Contains(err.Error(), "created anew") {
		t.Errorf("a path of the old topic answers %v", err)
	}
}

const tokens = `
auth:
  mode: token
  tokens:
    - {token: everything-0123456789, principal: admin, tables: ["*"]}
    - {token: orders-only-0123456789, principal: clerk, tables: ["pgjson_inv_orders"]}
`

// TestCredentials: nothing without the right ones, on the catalog and on the objects.
func TestCredentials(t *testing.T) {
	broker := harness.StartBroker(t)
	admin := harness.NewAdmin(t, broker)
	o, c := orders("pgjson"), captured{format: "pgjson", table: "customers"}
	admin.Replay(t, o.topic(), harness.Captured(t, o.file(t)))
	admin.Replay(t, c.topic(), harness.Captured(t, c.file(t)))
	f := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), Config: tokens})
	for name, tc := range map[string]struct {
		token string
		topic captured
		want  int
	}{
		"no token":            {"", o, http.StatusUnauthorized},
		"unknown token":       {"nobody-0123456789", o, http.StatusUnauthorized},
		"another's table":     {"orders-only-0123456789", c, http.StatusNotFound},
		"table that is there": {"nobody-0123456789", captured{format: "no", table: "such"}, http.StatusUnauthorized},
	} {
		if status, kind, message := f.Refusal(t, "v2", harness.TableName(tc.topic.topic()), tc.token); status != tc.want {
			t.Errorf("%s: %d %s: %s", name, status, kind, message)
		}
	}
	as := func(token string, c captured) *readback.Table {
		r := reader(f, "v2")
		r.Token = token
		var table *readback.Table
		harness.Eventually(t, "the table loads", func() (err error) {
			table, err = r.Load(t.Context(), harness.TableName(c.topic()))
			return err
		})
		return table
	}
	clerk, all := as("orders-only-0123456789", o), as("everything-0123456789", c)
	if rows, err := clerk.Rows(t.Context(), 0); err != nil || len(rows) != 2 {
		t.Errorf("with the right credentials: %d rows, %v", len(rows), err)
	}
	path := dataFile(t, all).Path
	for name, change := range map[string]func(map[string]string){
		"of another table":      func(map[string]string) {},
		"a wrong secret":        func(k map[string]string) { k["s3.secret-access-key"] = strings.Repeat("x", 40) },
		"a wrong session":       func(k map[string]string) { k["s3.session-token"] = "x" },
		"an unknown access key": func(k map[string]string) { k["s3.access-key-id"] = "AKIAXXXXXXXXXXXXXXXX" },
	} {
		thief := as("orders-only-0123456789", o)
		change(thief.Config)
		if _, err := thief.Object(t.Context(), path, ""); code(t, err) != http.StatusForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	catalog := catalogs(f, "orders-only-0123456789")
	for _, engine := range harness.Engines(t) {
		answers := harness.Ask(t, engine, map[string]harness.Catalog{"v2": catalog["v2"]}, []harness.Query{
			{ID: "own", Catalog: "v2", Table: harness.Namespace + ".pgjson_inv_orders"},
			{ID: "other", Catalog: "v2", Table: harness.Namespace + ".pgjson_inv_customers"},
		})
		if a := answers["own"]; a.Error != "" || len(a.Rows) != 2 {
			t.Errorf("%s, own table: %d rows, %s", engine, len(a.Rows), a.Error)
		}
		if a := answers["other"]; a.Error == "" {
			t.Errorf("%s, another's table: %d rows", engine, len(a.Rows))
		}
	}
}
