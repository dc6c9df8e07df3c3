package app

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/config"
)

const secret32 = "0123456789abcdef0123456789abcdef"

func usable() Config {
	c := Default()
	c.Kafka.Brokers = []string{"localhost:9092"}
	return c
}

func TestDefaultsNeedOnlyBrokers(t *testing.T) {
	for _, target := range []Target{TargetAll, TargetEdge, TargetCatalog, TargetMaterializer, TargetDedup} {
		if warnings, err := usable().Validate(target); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", target, err, warnings)
		}
	}
	if _, err := Default().Validate(TargetAll); err == nil || !strings.Contains(err.Error(), "kafka.brokers") {
		t.Errorf("without brokers: %v", err)
	}
}

func TestWhatCannotWorkIsNamed(t *testing.T) {
	for _, c := range []struct {
		target Target
		yaml   string
		want   string
	}{
		{TargetCatalog, "services: {listen: {catalog: '0.0.0.0:7070'}}", "services.listen.catalog is not loopback: cluster.secret is required"},
		{TargetEdge, "services: {materializer: 'dns:///materializer:7071'}", "services.materializer is not loopback"},
		{TargetEdge, "services: {materializer: '127.0.0.1:1,10.0.0.1:1'}", "services.materializer is not loopback"},
		{TargetDedup, "cluster: {secret: short}", "cluster.secret has 5 characters"},
		{TargetDedup, "services: {materializer: ''}", "services.materializer is empty"},
		{TargetAll, "rest: {listen: '0.0.0.0:8181'}", "auth"},
		{TargetAll, "cache: {max_bytes: 1MiB}", "cache.max_bytes"},
		{TargetAll, "memory: {max_bytes: 1MiB}", "memory.max_bytes"},
		{TargetAll, "snapshots: {retention: 1s}", "snapshots.retention"},
		{TargetAll, "telemetry: {log_level: loud}", "telemetry.log_level"},
		{TargetAll, "kafka: {sasl: {mechanism: MAGIC, username: u, password: p}}", "MAGIC"},
		{TargetAll, "registry: {url: 'nowhere'}", "registry"},
		{TargetAll, "data_dir: ''", "data_dir"},
		{TargetAll, "tables: {orders: {name: 'No Name'}}", "tables.orders.name"},
		{TargetAll, "tables: {a: {name: orders}, b: {name: orders}}", `topics "a" and "b" both have the table name "orders": set tables.b.name`},
		{TargetAll, "tables: {orders: {chunk_log2: 14}, b: {name: orders}}", `topics "b" and "orders" both have the table name`},
		{TargetAll, "tables: {a: {name: orders}, b: {name: orders__changes}}", `a view of topic "a": set tables.b.name`},
		{TargetAll, "tables: {a: {name: orders}, b: {name: orders, exclude: true}}", ""},
		{TargetAll, "tables: {a: {name: orders}, b: {name: orders}}\ntopics: {exclude: [b]}", ""},
		{TargetAll, "tables: {b: {name: orders__changes}}", ""},
		{TargetAll, "kafka: {brokers: [localhost:9092, nonsense]}", `kafka.brokers: "nonsense" is no address: write host:port`},
		{TargetAll, "kafka: {brokers: ['localhost:kafka']}", "kafka.brokers"},
		{TargetAll, "kafka: {brokers: [':9092']}", "kafka.brokers"},
		{TargetAll, "kafka: {brokers: ['']}", "kafka.brokers"},
		{TargetAll, "kafka: {brokers: ['[::1]:9092']}", ""},
		{TargetEdge, "services: {catalog: nonsense}\ncluster: {secret: " + secret32 + "}", `services.catalog: "nonsense" is no address`},
		{TargetEdge, "services: {catalog: 'dns:///nonsense'}\ncluster: {secret: " + secret32 + "}", `services.catalog: "nonsense" is no address`},
		{TargetAll, "services: {catalog: '10.0.0.1:7070'}", ""}, // not used in one process
		{TargetEdge, "services: {materializer: 'dns:///m:1'}\ncluster: {secret: " + secret32 + "}", ""},
	} {
		conf := usable()
		if err := config.Parse([]byte(c.yaml), &conf); err != nil {
			t.Errorf("%s: %v", c.yaml, err)
			continue
		}
		_, err := conf.Validate(c.target)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.target, c.yaml, err, c.want)
		}
	}
}

func TestOnlySharedKeysMakeTheHash(t *testing.T) {
	hash := func(yaml string) string {
		c := usable()
		if err := config.Parse([]byte(yaml), &c); err != nil {
			t.Fatal(err)
		}
		h, err := c.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash("")
	for _, local := range []string{"data_dir: /x", "kafka: {brokers: [other:9092]}", "rest: {listen: '127.0.0.1:1'}",
		"cache: {max_bytes: 1GiB}", "services: {catalog: 'c:1'}", "telemetry: {log_level: debug}", "cluster: {secret: " + secret32 + "}"} {
		if hash(local) != base {
			t.Errorf("%s changes the hash", local)
		}
	}
	for _, shared := range []string{"namespace: other", "s3: {bucket: other}", "snapshots: {retention: 2h}",
		"tables: {a: {name: b}}", "topics: {include: ['a*']}", "freshness: {load_wait: 1s}", "on_bad_record: skip",
		"retention_margin_percent: 5", "plan: lazy", "lazy_room: 2GiB"} {
		if hash(shared) == base {
			t.Errorf("%s does not change the hash", shared)
		}
	}
}

// A key that no page explains is not there for anybody.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	keys := map[string]bool{}
	collectKeys(reflect.TypeFor[Config](), "", keys)
	for k := range keys {
		if !documented[k] {
			t.Errorf("%s is not in docs/CONFIG.md", k)
		}
	}
	for k := range documented {
		if !keys[k] {
			t.Errorf("docs/CONFIG.md explains %s, which does not exist", k)
		}
	}
}

// collectKeys lists the leaves of the configuration in the form of the page: a list's items as key[].x, a map's
// values as key.<topic>.x.
func collectKeys(t reflect.Type, path string, keys map[string]bool) {
	switch {
	case t.Kind() == reflect.Struct && t.NumField() > 0 && t.Field(0).IsExported():
		for i := range t.NumField() {
			f := t.Field(i)
			name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			switch {
			case name == "-" || !f.IsExported():
			case strings.Contains(opts, "inline"):
				collectKeys(f.Type, path, keys)
			case path == "":
				collectKeys(f.Type, name, keys)
			default:
				collectKeys(f.Type, path+"."+name, keys)
			}
		}
	case t.Kind() == reflect.Map:
		collectKeys(t.Elem(), path+".<topic>", keys)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && t.Elem().Field(0).IsExported():
		collectKeys(t.Elem(), path+"[]", keys)
	default:
		keys[path] = true
	}
}

// The file of docker-compose.yml must be usable by every service, with the variables that the compose file sets.
func TestTheComposeFileIsValid(t *testing.T) {
	for target, environ := range map[Target][]string{
		TargetEdge:         nil,
		TargetCatalog:      {"FRAZIL_SERVICES__LISTEN__CATALOG=0.0.0.0:7070"},
		TargetMaterializer: {"FRAZIL_SERVICES__LISTEN__MATERIALIZER=0.0.0.0:7071"},
		TargetDedup:        {"FRAZIL_SERVICES__LISTEN__DEDUP=0.0.0.0:7072"},
	} {
		c := Default()
		if err := config.Load("../../deploy/compose/frazil.yaml", environ, &c); err != nil {
			t.Fatal(err)
		}
		if warnings, err := c.Validate(target); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", target, err, warnings)
		}
	}
}
