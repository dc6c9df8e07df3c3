package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/probe"
)

// limits are the thresholds of --fail-above.
type limits []limit

type limit struct {
	name  string
	above float64
}

// figure is a total that can have a limit.
type figure struct {
	name string
	of   func(*Result) float64
}

func figures() []figure {
	total := func(f func(*probe.Counts) int64) func(*Result) float64 {
		return func(r *Result) float64 { return float64(f(&r.Totals)) }
	}
	return []figure{
		{"probe_units", total(func(c *probe.Counts) int64 { return c.Plain.ProbeUnits })},
		{"probe_units_pruned", total(func(c *probe.Counts) int64 { return c.Pruned.ProbeUnits })},
		{"equality_delete_files", total(func(c *probe.Counts) int64 { return c.EqualityDeleteFiles })},
		{"delete_keys", total(func(c *probe.Counts) int64 { return c.DeleteKeys })},
		{"data_files_touched", total(func(c *probe.Counts) int64 { return c.Plain.DataFilesTouched })},
		{"data_files_touched_pruned", total(func(c *probe.Counts) int64 { return c.Pruned.DataFilesTouched })},
		{"worst_fanout", total(func(c *probe.Counts) int64 { return c.Plain.WorstFanout })},
		{"worst_fanout_pruned", total(func(c *probe.Counts) int64 { return c.Pruned.WorstFanout })},
		{"worst_keys_per_data_file", total(func(c *probe.Counts) int64 { return c.Plain.WorstKeys })},
		{"dangling_equality_delete_files", total(func(c *probe.Counts) int64 { return c.DanglingDeleteFiles })},
		{"position_delete_files", total(func(c *probe.Counts) int64 { return c.PositionDeleteFiles })},
		{"deletion_vectors", total(func(c *probe.Counts) int64 { return c.DeletionVectors })},
		{"probe_units_per_hour", func(r *Result) float64 { return r.Trend.ProbeUnitsPerHour }},
		{"delete_keys_added_per_hour", func(r *Result) float64 { return r.Trend.KeysAddedPerHour }},
	}
}

// String implements flag.Value.
func (l *limits) String() string {
	parts := make([]string, 0, len(*l))
	for _, one := range *l {
		parts = append(parts, one.name+"="+strconv.FormatFloat(one.above, 'g', -1, 64))
	}
	return strings.Join(parts, ",")
}

// Set implements flag.Value: NAME=NUMBER, divided by commas; k, M, G and T after a number multiply by thousands.
func (l *limits) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=NUMBER", part)
		}
		known := make([]string, 0, 16)
		for _, f := range figures() {
			known = append(known, f.name)
		}
		if !slices.Contains(known, name) {
			return fmt.Errorf("no figure is called %q: did you mean %s?", name, config.Nearest(name, known))
		}
		factor := 1.0
		for unit, f := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
			if rest, ok := strings.CutSuffix(number, unit); ok {
				number, factor = rest, f
			}
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%s: %q is no number", name, number)
		}
		*l = append(*l, limit{name, v * factor})
	}
	return nil
}

// exceeded answers an error for each limit that the result is above.
func (l limits) exceeded(r *Result) []error {
	var out []error
	for _, one := range l {
		for _, f := range figures() {
			if v := f.of(r); f.name == one.name && v > one.above {
				out = append(out, fmt.Errorf("%s: %s is %s, above %s", r.Table, f.name, probe.Short(int64(v)), probe.Short(int64(one.above))))
			}
		}
	}
	return out
}
