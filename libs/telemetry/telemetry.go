// Package telemetry makes what a process reports with: a structured logger, traces and metrics. Nothing is global:
// what is made here is handed to constructors.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Config says what is reported and where to.
type Config struct {
	// LogFormat is "text" or "json".
	LogFormat string `yaml:"log_format"`
	// LogLevel is "debug", "info", "warn" or "error".
	LogLevel string `yaml:"log_level"`
	// OTLPEndpoint is the host:port of an OpenTelemetry collector's gRPC receiver; empty = traces are not
	// exported and metrics are only scraped.
	OTLPEndpoint string `yaml:"otlp_endpoint"`
	// OTLPInsecure speaks to the collector without TLS.
	OTLPInsecure bool `yaml:"otlp_insecure"`
	// TraceRatio is the share of new traces that are recorded, 0 to 1. A trace begun by a caller follows the
	// caller's choice.
	TraceRatio float64 `yaml:"trace_ratio"`
}

// Default answers text logs at info, no exporter.
func Default() Config {
	return Config{LogFormat: "text", LogLevel: "info", OTLPInsecure: true, TraceRatio: 0.05}
}

// Validate says what is wrong.
func (c Config) Validate() error {
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("telemetry.log_format is %q: text or json", c.LogFormat)
	}
	if _, err := c.level(); err != nil {
		return err
	}
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) {
		return errors.New("telemetry.trace_ratio is outside 0 to 1")
	}
	return nil
}

func (c Config) level() (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("telemetry.log_level is %q: debug, info, warn or error", c.LogLevel)
	}
	return l, nil
}

// Telemetry is what was made. Its owner calls Shutdown last of all.
type Telemetry struct {
	// Logger writes to the writer given to New.
	Logger *slog.Logger
	// Tracers and Meters are never nil; without an exporter the spans go nowhere.
	Tracers trace.TracerProvider
	Meters  metric.MeterProvider
	// Metrics answers the Prometheus text format.
	Metrics http.Handler

	propagator propagation.TextMapPropagator
	shutdown   []func(context.Context) error
}

// New makes a process's telemetry. service and version name the process. It connects in the background: an absent
// collector is no error here.
func New(ctx context.Context, c Config, service, version string, w io.Writer) (*Telemetry, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	res := resource.NewSchemaless(semconv.ServiceName(service), semconv.ServiceVersion(version))
	t := &Telemetry{
		Logger:     NewLogger(c, w),
		propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	if err := t.makeMeters(ctx, c, res); err != nil {
		return nil, err
	}
	if err := t.makeTracers(ctx, c, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

// NewLogger makes the logger alone. The configuration must be valid.
func NewLogger(c Config, w io.Writer) *slog.Logger {
	level, err := c.level()
	if err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func (t *Telemetry) makeMeters(ctx context.Context, c Config, res *resource.Resource) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := otelprom.New(otelprom.WithRegisterer(registry))
	if err != nil {
		return fmt.Errorf("make prometheus exporter: %w", err)
	}
	opts := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(reader)}
	if c.OTLPEndpoint != "" {
		o := []otlpmetricgrpc.Option{otlpmetricgrpc.WithEndpoint(c.OTLPEndpoint)}
		if c.OTLPInsecure {
			o = append(o, otlpmetricgrpc.WithInsecure())
		}
		exporter, err := otlpmetricgrpc.New(ctx, o...)
		if err != nil {
			return fmt.Errorf("make metrics exporter: %w", err)
		}
		opts = append(opts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	meters := sdkmetric.NewMeterProvider(opts...)
	t.Meters, t.shutdown = meters, append(t.shutdown, meters.Shutdown)
	t.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return nil
}

func (t *Telemetry) makeTracers(ctx context.Context, c Config, res *resource.Resource) error {
	opts := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if c.OTLPEndpoint == "" {
		opts = append(opts, sdktrace.WithSampler(sdktrace.NeverSample()))
	} else {
		o := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(c.OTLPEndpoint)}
		if c.OTLPInsecure {
			o = append(o, otlptracegrpc.WithInsecure())
		}
		exporter, err := otlptracegrpc.New(ctx, o...)
		if err != nil {
			return fmt.Errorf("make trace exporter: %w", err)
		}
		opts = append(opts, sdktrace.WithBatcher(exporter),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.TraceRatio))))
	}
	tracers := sdktrace.NewTracerProvider(opts...)
	t.Tracers, t.shutdown = tracers, append(t.shutdown, tracers.Shutdown)
	return nil
}

// Propagator carries trace context over a wire.
func (t *Telemetry) Propagator() propagation.TextMapPropagator { return t.propagator }

// ServerOption makes a gRPC server report spans and metrics.
func (t *Telemetry) ServerOption() grpc.ServerOption { return grpc.StatsHandler(t.ServerStats()) }

// DialOption makes a gRPC client report spans and metrics.
func (t *Telemetry) DialOption() grpc.DialOption { return grpc.WithStatsHandler(t.ClientStats()) }

// ServerStats is what ServerOption installs.
func (t *Telemetry) ServerStats() stats.Handler { return otelgrpc.NewServerHandler(t.grpcOptions()...) }

// ClientStats is what DialOption installs.
func (t *Telemetry) ClientStats() stats.Handler { return otelgrpc.NewClientHandler(t.grpcOptions()...) }

func (t *Telemetry) grpcOptions() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.Tracers),
		otelgrpc.WithMeterProvider(t.Meters),
		otelgrpc.WithPropagators(t.propagator),
	}
}

// Shutdown flushes and ends the exporters.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for i := len(t.shutdown) - 1; i >= 0; i-- {
		errs = append(errs, t.shutdown[i](ctx))
	}
	t.shutdown = nil
	return errors.Join(errs...)
}
