package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
)

var (
	dialects = []string{"v2", "v3"}
	// tables are the captured ones, as their topics spell them.
	tables = []string{"customers", "orders", "docs_full", "uniq", "Odd_N_me", "all_types", marker}
)

// marker is the table that each stage writes to last; connector is also the prefix of the topics.
const (
	database  = "inv"
	marker    = "stages"
	connector = "live"
)

func topic(table string) string { return connector + ".inv." + table }

// quoted is the table's name in the database, for a statement.
func quoted(table string) string {
	if table == "Odd_N_me" {
		return `"Odd Näme"`
	}
	return table
}

// stack is everything between a database and the engines.
type stack struct {
	db       *harness.Postgres
	registry *harness.Apicurio
	connect  *harness.Connect
	gateway  *harness.Frazil
	kafka    *kgo.Client // reads the marker's topic, committed records only
	admin    *kadm.Client
	stages   int
	arrivals int
}

// newStack starts the components, the connector's first. The order matters to the end, too: what was started last is
// stopped first.
func newStack(t *testing.T) *stack {
	t.Helper()
	harness.NeedFull(t, "a database, Kafka Connect and a schema registry are started")
	s := &stack{db: harness.StartPostgres(t)}
	s.db.Create(t, database, "testdata/schema.sql", "testdata/oracle.sql")
	s.registry = harness.StartApicurio(t)
	broker := harness.StartKafka(t)
	s.connect = harness.StartConnect(t, broker)
	s.connect.Connector(t, connector, configuration(t, s.db, s.registry))
	s.gateway = harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), Registry: s.registry.Confluent(), Config: gatewayConfig})
	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.ConsumeTopics(topic(marker)), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	s.kafka, s.admin = kafka, kadm.NewClient(kafka)
	return s
}

// gatewayConfig makes the chunks of two tables small, so that some are closed when more changes arrive.
const gatewayConfig = `
tables:
  live.inv.orders: {chunk_log2: 6, block_log2: 4}
  live.inv.customers: {chunk_log2: 5, block_log2: 2}
`

// configuration is the connector's: Avro with the registry's ids in Confluent's wire format, every batch in a transaction
// of Kafka's, orders in more partitions than one.
func configuration(t *testing.T, db *harness.Postgres, registry *harness.Apicurio) map[string]string {
	t.Helper()
	c := map[string]string{
		"connector.class":             "io.debezium.connector.postgresql.PostgresConnector",
		"database.hostname":           "127.0.0.1",
		"database.port":               db.Port(t),
		"database.user":               harness.PostgresUser,
		"database.password":           "none",
		"database.dbname":             database,
		"topic.prefix":                connector,
		"plugin.name":                 "pgoutput",
		"slot.name":                   connector, // a name for the whole server, and compose takes the default
		"publication.autocreate.mode": "filtered",
		"schema.include.list":         "inv",
		// PostgreSQL 15 leaves generated columns out of what it decodes, but the connector's first scan has them.
		"column.exclude.list":                       `inv\.all_types\.c_gen`,
		"snapshot.mode":                             "initial",
		"exactly.once.support":                      "required",
		"poll.interval.ms":                          "100",
		"schema.name.adjustment.mode":               "avro",
		"field.name.adjustment.mode":                "avro",
		"topic.creation.default.partitions":         "1",
		"topic.creation.default.replication.factor": "1",
		"topic.creation.groups":                     "wide",
		"topic.creation.wide.include":               `live\.inv\.orders`,
		"topic.creation.wide.partitions":            "3",
	}
	for _, part := range []string{"key", "value"} {
		prefix := part + ".converter"
		c[prefix] = "io.apicurio.registry.utils.converter.AvroConverter"
		for name, value := range map[string]string{
			"url": registry.Native(), "auto-register": "true", "find-latest": "false",
			"as-confluent": "true", "use-id": "contentId", "headers.enabled": "false",
		} {
			c[prefix+".apicurio.registry."+name] = value
		}
	}
	return c
}

// captured waits until all that was committed in the database so far can be read from the topics, and answers their ends:
// by topic and partition, the last stable offset.
func (s *stack) captured(t *testing.T) map[string]map[int32]int64 {
	t.Helper()
	s.db.Query(t, database, "INSERT INTO inv.stages DEFAULT VALUES")
	s.stages++
	// Debezium follows the order of the commits and writes with one transactional producer: when the marker's record is
	// committed, so is every record before it. Its batches may be committed later in one partition than in another.
	harness.Eventually(t, fmt.Sprintf("%d markers have arrived", s.stages), func() error {
		if err := s.connect.Failure(t, connector); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		fetches := s.kafka.PollFetches(ctx)
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		s.arrivals += fetches.NumRecords()
		if s.arrivals < s.stages {
			return fmt.Errorf("%d have", s.arrivals)
		}
		return nil
	})
	all := map[string]map[int32]int64{}
	harness.Eventually(t, "no transaction is open", func() error {
		for _, table := range tables {
			name := topic(table)
			ends, err := s.admin.ListEndOffsets(t.Context(), name)
			if err == nil {
				err = ends.Error()
			}
			if err != nil {
				return err
			}
			stable, err := s.admin.ListCommittedOffsets(t.Context(), name)
			if err == nil {
				err = stable.Error()
			}
			if err != nil {
				return err
			}
			all[name] = map[int32]int64{}
			for p, end := range ends[name] {
				if all[name][p] = stable[name][p].Offset; all[name][p] != end.Offset {
					return fmt.Errorf("%s/%d is stable to %d of %d", name, p, all[name][p], end.Offset)
				}
			}
		}
		return nil
	})
	s.asConfigured(t, all)
	return all
}

// asConfigured checks that the test has the log it means to have: one with the markers of transactions, which take offsets
// as records do, and a topic of several partitions.
func (s *stack) asConfigured(t *testing.T, ends map[string]map[int32]int64) {
	t.Helper()
	if end := ends[topic(marker)][0]; end <= int64(s.arrivals) {
		t.Errorf("%d records end at offset %d: they were not written in transactions", s.arrivals, end)
	}
	if n := len(ends[topic("orders")]); n != 3 {
		t.Errorf("orders has %d partitions", n)
	}
}

// types are the table's types for the database's.
var types = map[string]string{
	"smallint": "int", "integer": "int", "bigint": "long", "oid": "long", "inv.positive": "int",
	"real": "float", "double precision": "double",
	"numeric(10,2)": "decimal(10, 2)", "numeric(10,4)": "decimal(10, 4)", "numeric(12,2)": "decimal(12, 2)",
	"numeric(38,10)": "decimal(38, 10)", "numeric(20,0)": "decimal(20, 0)", "money": "decimal(38, 2)",
	"numeric": "string", // any scale
	"text":    "string", "character(5)": "string", "character varying(10)": "string", "character varying(80)": "string", "citext": "string",
	"bytea": "binary", "boolean": "boolean",
	"date":                   "date",
	"time without time zone": "long", "time(3) without time zone": "long", "time with time zone": "string", "interval": "long",
	"timestamp without time zone": "timestamp", "timestamp(3) without time zone": "timestamp", "timestamp(0) without time zone": "timestamp",
	"timestamp with time zone": "timestamptz", "timestamp(3) with time zone": "timestamptz",
	"uuid": "string", "json": "string", "jsonb": "string", "xml": "string", "hstore": "string", "ltree": "string", "tsvector": "string",
	"inet": "string", "cidr": "string", "macaddr": "string", "macaddr8": "string",
	"bit(1)": "boolean", "bit(8)": "binary", "bit varying(20)": "binary",
	"point":     "struct<x double, y double, wkb binary, srid int>",
	"int4range": "string", "int8range": "string", "numrange": "string", "tsrange": "string", "tstzrange": "string", "daterange": "string",
	"inv.mood":  "string",
	"integer[]": "list<int>", "text[]": "list<string>", "numeric(10,2)[]": "list<decimal(10, 2)>", "date[]": "list<date>", "boolean[]": "list<boolean>",
	"uuid[]": "list<string>", "timestamp with time zone[]": "list<timestamptz>",
}

// columns are the names and types of a table's current schema.
func (s *stack) columns(t *testing.T, dialect, table string) []string {
	t.Helper()
	path := fmt.Sprintf("/v1/%s/namespaces/%s/tables/%s", dialect, harness.Namespace, harness.TableName(topic(table)))
	status, body, err := s.gateway.Get(t.Context(), path, "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("load %s: %d, %v", table, status, err)
	}
	var loaded struct {
		Metadata struct {
			Current int `json:"current-schema-id"`
			Schemas []struct {
				ID     int `json:"schema-id"`
				Fields []column
			}
		}
	}
	if err := json.Unmarshal(body, &loaded); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, schema := range loaded.Metadata.Schemas {
		if schema.ID == loaded.Metadata.Current {
			for _, c := range schema.Fields {
				all = append(all, c.Name+" "+typeName(t, c.Type))
			}
		}
	}
	return all
}

type column struct {
	Name string
	Type json.RawMessage
}

// typeName is an Iceberg type on one line, without field ids.
func typeName(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var nested struct {
		Type    string
		Element json.RawMessage
		Fields  []column
	}
	if err := json.Unmarshal(raw, &nested); err != nil {
		t.Fatal(err)
	}
	if nested.Type == "list" {
		return "list<" + typeName(t, nested.Element) + ">"
	}
	var fields []string
	for _, f := range nested.Fields {
		fields = append(fields, f.Name+" "+typeName(t, f.Type))
	}
	return nested.Type + "<" + strings.Join(fields, ", ") + ">"
}
