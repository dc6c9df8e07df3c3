package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/frazil-io/frazil/libs/telemetry"
)

// A request is one trace, from the client's own span through all four services.
func TestARequestIsOneTrace(t *testing.T) {
	c, logs := installation(t), &logBuffer{}
	tel, err := telemetry.New(t.Context(), c.Telemetry, "frazil", "test", logs)
	if err != nil {
		t.Fatal(err)
	}
	spans := tracetest.NewInMemoryExporter()
	tel.Tracers = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	runWith(t, c, TargetAll, tel)
	base := "http://" + c.REST.Listen
	eventually(t, base+"/readyz", http.StatusOK)

	const id = "0af7651916cd43dd8448eb211c80319c"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/v2/namespaces/kafka/tables/shop_orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s %v\n%s", resp.StatusCode, body, err, logs)
	}
	missing := []string{"rest loadTable", "frazil.catalog.v1.", "frazil.dedup.v1.", "frazil.materializer.v1."}
	var served []string
	for _, s := range spans.GetSpans() {
		if s.SpanKind != trace.SpanKindServer || s.SpanContext.TraceID().String() != id {
			continue
		}
		served = append(served, s.Name)
		for i, want := range missing {
			if want != "" && strings.HasPrefix(s.Name, want) {
				missing[i] = ""
			}
		}
	}
	if strings.Join(missing, "") != "" {
		t.Errorf("the trace has no span of %q, only %q", missing, served)
	}
}

// runWith runs a target with telemetry that the caller made.
func runWith(t *testing.T, c Config, target Target, tel *telemetry.Telemetry) {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c, target, tel) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s ended with %v", target, err)
		}
		if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
