package gauge_test

import (
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/frazil-io/frazil/libs/gauge"
)

// A gauge shows what is so when it is read, for each label.
func TestGaugesAreLookedAtWhenTheyAreRead(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	size := int64(1)
	err := gauge.Register(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
		gauge.Gauge{Name: "one", Unit: "By", What: "One.", Values: gauge.One(func() int64 { return size })},
		gauge.Gauge{Name: "two", Unit: "By", What: "Two.", Label: "kind", Values: map[string]func() int64{
			"a": func() int64 { return 2 * size }, "b": func() int64 { return 3 * size },
		}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		size *= 5
		var read metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &read); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range read.ScopeMetrics[0].Metrics {
			for _, p := range m.Data.(metricdata.Gauge[int64]).DataPoints {
				got = append(got, fmt.Sprintf("%s%s %d", m.Name, label(p.Attributes), p.Value))
			}
		}
		slices.Sort(got)
		want := fmt.Sprintf("[one %d two/a %d two/b %d]", size, 2*size, 3*size)
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

func label(set attribute.Set) string {
	kind, ok := set.Value("kind")
	if !ok {
		return ""
	}
	return "/" + kind.AsString()
}
