package live

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

// The database of docker-compose.yml, which is also the prefix of its topics, and what its script puts in.
const (
	composeDatabase = "shop"
	customersRows   = 100
	ordersRows      = 1000
)

// compose captures the database of docker-compose.yml with the connector that it registers, both from their files and
// both without containers, and compares what an engine reads with what the database says.
func (s *stack) compose(t *testing.T) {
	dir := filepath.Join(harness.Root(t), "deploy", "compose")
	s.db.Create(t, composeDatabase, filepath.Join(dir, "shop.sql"))
	s.connect.Connector(t, composeDatabase, s.composeConnector(t, filepath.Join(dir, "connector.json")))
	var queries []harness.Query
	for table, rows := range map[string]int{"customers": customersRows, "orders": ordersRows} {
		name := harness.TableName("shop.public." + table)
		client := &readback.Client{REST: s.gateway.REST, Warehouse: dialects[0], Namespace: harness.Namespace, HTTP: http.DefaultClient}
		harness.Eventually(t, fmt.Sprintf("%s has %d rows", name, rows), func() error {
			if err := s.connect.Failure(t, composeDatabase); err != nil {
				t.Fatal(err)
			}
			loaded, err := client.Load(t.Context(), name)
			if err != nil {
				return err
			}
			found, err := loaded.Rows(t.Context(), 0)
			if err == nil && len(found) != rows {
				err = fmt.Errorf("it has %d", len(found))
			}
			return err
		})
		queries = append(queries, harness.Query{ID: table, Catalog: dialects[0], Table: harness.Namespace + "." + name})
	}
	answers := harness.Ask(t, harness.DuckDB, map[string]harness.Catalog{dialects[0]: {URI: s.gateway.REST, Warehouse: dialects[0]}}, queries)
	for table, columns := range map[string]string{
		"customers": "id, name, email, city",
		"orders": `id, customer_id, status, 'd:' || amount AS amount,
			'tz:' || to_char(placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') AS placed_at`,
	} {
		want := s.rows(t, composeDatabase, fmt.Sprintf("SELECT row_to_json(answer) FROM (SELECT %s FROM %s) AS answer", columns, table))
		same(t, table, answers[table], want)
	}
}

// composeConnector is the connector of a file, with the addresses of this test for those of the containers.
func (s *stack) composeConnector(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]string{}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	const registry = "http://registry:8080/apis/registry/v2"
	for _, address := range [][3]string{
		{"database.hostname", "postgres", "127.0.0.1"},
		{"database.port", "5432", s.db.Port(t)},
		{"key.converter.apicurio.registry.url", registry, s.registry.Native()},
		{"value.converter.apicurio.registry.url", registry, s.registry.Native()},
	} {
		if config[address[0]] != address[1] {
			t.Errorf("%s: %s is %q, want %q", file, address[0], config[address[0]], address[1])
		}
		config[address[0]] = address[2]
	}
	// The broker of the tests does not make topics on its own, as the image's does.
	config["topic.creation.default.partitions"] = "1"
	config["topic.creation.default.replication.factor"] = "1"
	return config
}

// rows are the answers of a statement that gives one JSON object for a row, spelt and sorted.
func (s *stack) rows(t *testing.T, database, sql string) []string {
	t.Helper()
	var rows []string
	for _, line := range s.db.Query(t, database, sql) {
		rows = append(rows, spelt(t, object(t, line)))
	}
	slices.Sort(rows)
	return rows
}
