package observe_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
)

func TestObserver(t *testing.T) {
	reader := sdk.NewManualReader()
	log, text := edgefake.Log()
	o, err := observe.New(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("t"), log, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(status int, err error) {
		h := o.Handler("rest", func(w *observe.Writer, _ *http.Request) {
			w.Operation, w.Err = "loadTable", err
			w.WriteHeader(status)
			if _, err := w.Write([]byte("12345")); err != nil {
				t.Error(err)
			}
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/secret-path?X-Amz-Security-Token=secret", nil))
	}
	for _, c := range []struct {
		status int
		err    error
		level  string
	}{
		{200, nil, ""}, {499, context.Canceled, ""}, {404, fmt.Errorf("x: %w", fault.ErrNotFound), "DEBUG"}, {503, fault.ErrUnavailable, "DEBUG"},
		{501, fault.ErrUnsupported, "DEBUG"}, {500, errors.New("odd"), "WARN"}, {500, fault.ErrCorrupt, "ERROR"}, {200, errors.New("broke off"), "WARN"},
	} {
		text.Reset()
		serve(c.status, c.err)
		if got := text.String(); c.level == "" && got != "" || c.level != "" && !strings.Contains(got, "level="+c.level) || strings.Contains(got, "secret") {
			t.Errorf("%d %v: %q", c.status, c.err, got)
		}
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range data.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
		sum, ok := m.Data.(metricdata.Sum[int64])
		if !ok {
			continue
		}
		var total int64
		for _, p := range sum.DataPoints {
			total += p.Value
		}
		if want := map[string]int64{"frazil.edge.requests": 8, "frazil.edge.response.size": 40, "frazil.edge.requests.active": 0}[m.Name]; total != want {
			t.Errorf("%s = %d, want %d", m.Name, total, want)
		}
	}
	slices.Sort(names)
	if want := []string{"frazil.edge.request.duration", "frazil.edge.requests", "frazil.edge.requests.active", "frazil.edge.response.size"}; !slices.Equal(names, want) {
		t.Errorf("instruments %v", names)
	}
}
