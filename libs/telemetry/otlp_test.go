package telemetry_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/telemetry"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
)

// collector keeps what an OpenTelemetry collector would be sent.
type collector struct {
	tracev1.UnimplementedTraceServiceServer
	mu      sync.Mutex
	spans   []*spans.Span
	metrics map[string]bool
}

func (c *collector) Export(_ context.Context, r *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			c.spans = append(c.spans, ss.GetSpans()...)
		}
	}
	return &tracev1.ExportTraceServiceResponse{}, nil
}

// metricsCollector is the other half: both services call their method Export.
type metricsCollector struct {
	metricsv1.UnimplementedMetricsServiceServer
	c *collector
}

func (m metricsCollector) Export(_ context.Context, r *metricsv1.ExportMetricsServiceRequest) (*metricsv1.ExportMetricsServiceResponse, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	for _, rm := range r.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			for _, one := range sm.GetMetrics() {
				m.c.metrics[one.GetName()] = true
			}
		}
	}
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}

// serve serves on a listener until the test ends.
func serve(t *testing.T, g *grpc.Server, l net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A call between two services is one trace, and its figures arrive, too.
func TestCallsAreTracedAcrossServices(t *testing.T) {
	c := &collector{metrics: map[string]bool{}}
	g := grpc.NewServer()
	tracev1.RegisterTraceServiceServer(g, c)
	metricsv1.RegisterMetricsServiceServer(g, metricsCollector{c: c})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, g, l)

	conf := telemetry.Default()
	conf.OTLPEndpoint, conf.TraceRatio = l.Addr().String(), 1
	tel, err := telemetry.New(t.Context(), conf, "frazil", "v0", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	service := grpc.NewServer(append(rpc.ServerOptions(), tel.ServerOption())...)
	catalogv1.RegisterCatalogServiceServer(service, catalogv1.UnimplementedCatalogServiceServer{})
	pipe := rpc.NewPipe()
	serve(t, service, pipe.Listener())
	conn, err := pipe.Dial("catalog", tel.DialOption())
	if err != nil {
		t.Fatal(err)
	}
	ctx, root := tel.Tracers.Tracer("test").Start(t.Context(), "request")
	if _, err := catalogv1.NewCatalogServiceClient(conn).ListNamespaces(ctx, &catalogv1.ListNamespacesRequest{}); err == nil {
		t.Error("an unimplemented method answered")
	}
	root.End()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := tel.Shutdown(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	byKind := map[spans.Span_SpanKind]*spans.Span{}
	for _, s := range c.spans {
		byKind[s.GetKind()] = s
	}
	client, server := byKind[spans.Span_SPAN_KIND_CLIENT], byKind[spans.Span_SPAN_KIND_SERVER]
	if len(c.spans) != 3 || client == nil || server == nil {
		t.Fatalf("spans: %v", c.spans)
	}
	if !bytes.Equal(server.GetParentSpanId(), client.GetSpanId()) || !bytes.Equal(server.GetTraceId(), client.GetTraceId()) {
		t.Error("the server's span does not continue the client's")
	}
	for _, want := range []string{"rpc.client.call.duration", "rpc.server.call.duration"} {
		if !c.metrics[want] {
			t.Errorf("metrics lack %s: %v", want, c.metrics)
		}
	}
}
