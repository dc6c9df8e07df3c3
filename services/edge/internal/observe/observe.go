// Package observe counts, traces and logs the requests of both listeners. Labels are bounded: never a key, a path, a
// table or a principal.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/frazil-io/frazil/libs/fault"
)

// Observer wraps handlers. Safe for concurrent use.
type Observer struct {
	log      *slog.Logger
	now      func() time.Time
	requests metric.Int64Counter
	duration metric.Float64Histogram
	bytes    metric.Int64Counter
	active   metric.Int64UpDownCounter

	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

// New makes the instruments.
func New(meter metric.Meter, log *slog.Logger, now func() time.Time) (*Observer, error) {
	o := &Observer{log: log, now: now, tracer: noop.Tracer{}, propagator: propagation.TraceContext{}}
	var errs [4]error
	o.requests, errs[0] = meter.Int64Counter("frazil.edge.requests", metric.WithUnit("{request}"),
		metric.WithDescription("Requests answered, by protocol, operation and status."))
	o.duration, errs[1] = meter.Float64Histogram("frazil.edge.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a request's arrival to the end of its answer."))
	o.bytes, errs[2] = meter.Int64Counter("frazil.edge.response.size", metric.WithUnit("By"),
		metric.WithDescription("Bytes of answer bodies."))
	o.active, errs[3] = meter.Int64UpDownCounter("frazil.edge.requests.active", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that are being answered."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make instruments: %w", err)
	}
	return o, nil
}

// Traced is an observer that makes a span of each request, which goes on with the trace that the client names.
func (o *Observer) Traced(tracer trace.Tracer, propagator propagation.TextMapPropagator) *Observer {
	traced := *o
	traced.tracer, traced.propagator = tracer, propagator
	return &traced
}

// Writer is the answer to one request. The handler says what the request was.
type Writer struct {
	http.ResponseWriter
	Operation string // bounded set; "unknown" until it is known
	Err       error  // why the answer is an error or broke off; for the log
	status    int
	bytes     int64
}

// WriteHeader notes the status.
func (w *Writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (w *Writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err //nolint:wrapcheck // transparent
}

// Unwrap lets http.ResponseController find the writer below.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Handler makes an http.Handler of serve.
func (o *Observer) Handler(protocol string, serve func(w *Writer, r *http.Request)) http.Handler {
	proto := attribute.String("protocol", protocol)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		traced, span := o.tracer.Start(o.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), protocol, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		r = r.WithContext(traced)
		// Counting outlives the request: its end is when the context may be over.
		ctx := context.WithoutCancel(r.Context())
		begin := o.now()
		w := &Writer{ResponseWriter: rw, Operation: "unknown"}
		o.active.Add(ctx, 1, metric.WithAttributes(proto))
		defer o.active.Add(ctx, -1, metric.WithAttributes(proto))
		serve(w, r)
		if w.status == 0 {
			w.status = http.StatusOK
		}
		op := attribute.String("operation", w.Operation)
		o.requests.Add(ctx, 1, metric.WithAttributes(proto, op, attribute.Int("status", w.status)))
		o.duration.Record(ctx, o.now().Sub(begin).Seconds(), metric.WithAttributes(proto, op))
		o.bytes.Add(ctx, w.bytes, metric.WithAttributes(proto, op))
		span.SetName(protocol + " " + w.Operation)
		span.SetAttributes(attribute.String("http.request.method", r.Method), attribute.Int("http.response.status_code", w.status))
		if w.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		o.report(ctx, protocol, w)
	})
}

func (o *Observer) report(ctx context.Context, protocol string, w *Writer) {
	if w.Err == nil || errors.Is(w.Err, context.Canceled) {
		return
	}
	level := slog.LevelDebug
	switch {
	case errors.Is(w.Err, fault.ErrCorrupt):
		level = slog.LevelError
	case w.status >= 500 && w.status != http.StatusServiceUnavailable && w.status != http.StatusNotImplemented, w.status < 300:
		level = slog.LevelWarn
	}
	o.log.Log(ctx, level, "request failed", "protocol", protocol, "operation", w.Operation, "status", w.status, "err", w.Err)
}
