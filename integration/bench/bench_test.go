package bench

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// TestBench measures and prints. It fails when something cannot be measured, never because of a figure.
func TestBench(t *testing.T) {
	if os.Getenv(harness.ScaleVariable) != "bench" {
		t.Skipf("SKIPPED: %s=bench is needed; use `make bench`", harness.ScaleVariable)
	}
	all := []struct {
		id  string
		run func(*testing.T, *field, *report)
	}{
		{"a", benchPipeline},
		{"b", benchEdge},
		{"c", benchEngine},
		{"d", benchCatalog},
		{"e", benchMemory},
		{"f", benchFreshness},
		{"g", benchGrowth},
		{"h", benchFirstByte},
		{"i", benchChunks},
		{"j", benchKeys},
		{"k", benchMarks},
		{"l", benchDrain},
		{"m", benchBacklog},
		{"n", benchRowIndex},
		{"o", benchProbe},
		{"p", benchWalk},
		{"q", benchPartitions},
	}
	asked := strings.FieldsFunc(os.Getenv(partsVariable), func(r rune) bool { return r == ',' || r == ' ' })
	known := func(id string) bool {
		for _, p := range all {
			if p.id == id {
				return true
			}
		}
		return false
	}
	for _, id := range asked {
		if !known(id) {
			t.Fatalf("%s: there is no part %q", partsVariable, id)
		}
	}
	f, r := newField(t), newReport()
	r.head(f)
	for _, p := range all {
		if len(asked) == 0 || slices.Contains(asked, p.id) {
			p.run(t, f, r)
		}
	}
	r.foot()
}
