package telemetry_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/telemetry"
)

func TestMetricsAreScrapedAndLogsAreStructured(t *testing.T) {
	var logs bytes.Buffer
	c := telemetry.Default()
	c.LogFormat = "json"
	tel, err := telemetry.New(t.Context(), c, "frazil-edge", "v0", &logs)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tel.Meters.Meter("test").Int64Counter("frazil.edge.requests")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	_, span := tel.Tracers.Tracer("test").Start(t.Context(), "s")
	if span.IsRecording() {
		t.Error("a span is recorded without an exporter")
	}
	span.End()

	rec := httptest.NewRecorder()
	tel.Metrics.ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{"frazil_edge_requests_total{", "} 3", `service_name="frazil-edge"`, "go_goroutines"} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	tel.Logger.Info("ready", "table", "orders")
	if !strings.Contains(logs.String(), `"table":"orders"`) {
		t.Errorf("log line %s", logs.String())
	}
	if err := tel.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*telemetry.Config){
		"format": func(c *telemetry.Config) { c.LogFormat = "xml" },
		"level":  func(c *telemetry.Config) { c.LogLevel = "loud" },
		"ratio":  func(c *telemetry.Config) { c.TraceRatio = 2 },
	} {
		c := telemetry.Default()
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := telemetry.New(t.Context(), c, "s", "v", &bytes.Buffer{}); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}
