package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/libs/telemetry"
)

// logBuffer is a writer that several services share.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// installation is a configuration on free ports with a broker that holds one small topic.
func installation(t *testing.T) Config {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "shop.orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 100 {
		client.Produce(t.Context(), &kgo.Record{
			Topic: "shop.orders",
			Key:   fmt.Appendf(nil, `{"id":%d}`, i%10),
			Value: fmt.Appendf(nil, `{"id":%d,"n":%d}`, i%10, i),
		}, nil)
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.DataDir = t.TempDir()
	c.Kafka.Brokers = broker.ListenAddrs()
	c.REST.Listen, c.S3.Listen = freeport.Address(t), freeport.Address(t)
	c.Telemetry.LogLevel = "debug"
	return c
}

// run runs a target until the test ends and checks that it ends well.
func run(t *testing.T, c Config, target Target, logs *logBuffer) {
	t.Helper()
	if warnings, err := c.Validate(target); err != nil || len(warnings) > 0 {
		t.Fatalf("%s: %v, %v", target, err, warnings)
	}
	tel, err := telemetry.New(t.Context(), c.Telemetry, "frazil", "test", logs)
	if err != nil {
		t.Fatal(err)
	}
	runWith(t, c, target, tel)
}

func get(ctx context.Context, url string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// eventually waits for a status.
func eventually(t *testing.T, url string, want int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body, err := get(ctx, url)
		if err == nil && code == want {
			return body
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %d %s %v, want %d", url, code, body, err, want)
		case <-tick.C:
		}
	}
}

// checkTable loads the table in both dialects and looks for one snapshot with all 100 rows.
func checkTable(t *testing.T, c Config, logs *logBuffer) {
	t.Helper()
	base := "http://" + c.REST.Listen
	eventually(t, base+"/readyz", http.StatusOK)
	for _, warehouse := range []string{"v2", "v3"} {
		code, body, err := get(t.Context(), base+"/v1/"+warehouse+"/namespaces/kafka/tables/shop_orders")
		if err != nil || code != http.StatusOK {
			t.Fatalf("%s: %d %s %v\n%s", warehouse, code, body, err, logs)
		}
		var table struct {
			Metadata struct {
				Snapshots []struct {
					ID      int64             `json:"snapshot-id"`
					Summary map[string]string `json:"summary"`
				} `json:"snapshots"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal([]byte(body), &table); err != nil || len(table.Metadata.Snapshots) != 1 {
			t.Errorf("%s: %v: %s", warehouse, err, body)
		}
	}
	if strings.Contains(logs.String(), "level=ERROR") {
		t.Errorf("errors in the log:\n%s", logs)
	}
}

func TestOneProcess(t *testing.T) {
	c, logs := installation(t), &logBuffer{}
	run(t, c, TargetAll, logs)
	checkTable(t, c, logs)
	body := eventually(t, "http://"+c.REST.Listen+"/metrics", http.StatusOK)
	for _, want := range []string{"rpc_server_", "rpc_client_", "go_goroutines"} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	checkMetricsAreDocumented(t, body)
}

// A metric that no page explains is not there for anybody.
func checkMetricsAreDocumented(t *testing.T, scraped string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (frazil_\w+) `).FindAllStringSubmatch(scraped, -1) {
		if !regexp.MustCompile("`" + m[1] + "[`{]").Match(page) {
			t.Errorf("%s is not in docs/OPERATING.md", m[1])
		}
	}
}

// The same with four processes' worth of services that speak over TCP, each with a data directory of its own.
func TestSplitMode(t *testing.T) {
	c, logs := installation(t), &logBuffer{}
	c.Cluster.Secret = config.NewSecret(secret32)
	c.Services.Listen = ListenConfig{Catalog: freeport.Address(t), Materializer: freeport.Address(t), Dedup: freeport.Address(t)}
	c.Services.Catalog, c.Services.Dedup = c.Services.Listen.Catalog, c.Services.Listen.Dedup
	second := freeport.Address(t)
	c.Services.Materializer = c.Services.Listen.Materializer + "," + second
	for _, p := range []struct {
		target Target
		listen string
	}{
		{TargetDedup, ""}, {TargetMaterializer, ""}, {TargetMaterializer, second}, {TargetCatalog, ""}, {TargetEdge, ""},
	} {
		own := c
		own.DataDir, own.Health.Listen = t.TempDir(), freeport.Address(t)
		if p.listen != "" {
			own.Services.Listen.Materializer = p.listen
		}
		run(t, own, p.target, logs)
		eventually(t, "http://"+own.Health.Listen+"/readyz", http.StatusOK)
	}
	checkTable(t, c, logs)
}

// A broker that is away at the start keeps the process from being ready and from nothing else.
func TestTheBrokerIsAwayAtTheStart(t *testing.T) {
	c, logs := installation(t), &logBuffer{}
	c.Kafka.Brokers = []string{freeport.Address(t)}
	run(t, c, TargetAll, logs)
	base := "http://" + c.REST.Listen
	body := eventually(t, base+"/readyz", http.StatusServiceUnavailable)
	if !strings.Contains(body, "kafka") {
		t.Errorf("the reason is not said: %s", body)
	}
	eventually(t, base+"/livez", http.StatusOK)
	eventually(t, base+"/v1/config", http.StatusOK)
}
