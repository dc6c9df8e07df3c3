package bench

import (
	"fmt"
	"math"
	"slices"
)

// Series is repeated measurements of one thing, in one unit.
type Series []float64

// Median is the middle measurement, the mean of the two middle ones of an even number, and 0 of none.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// Min is the least measurement, 0 of none.
func (s Series) Min() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// Max is the greatest measurement, 0 of none.
func (s Series) Max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// Sum is all measurements together.
func (s Series) Sum() float64 {
	total := 0.0
	for _, v := range s {
		total += v
	}
	return total
}

// Quantile is the least measurement that at least the share q of all do not exceed, 0 of none.
func (s Series) Quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// Over answers the ratio of each measurement to that of other in the same round.
func (s Series) Over(other Series) Series {
	out := make(Series, 0, len(s))
	for i := range min(len(s), len(other)) {
		out = append(out, s[i]/other[i])
	}
	return out
}

// Minus answers the difference of each measurement to that of other in the same round.
func (s Series) Minus(other Series) Series {
	out := make(Series, 0, len(s))
	for i := range min(len(s), len(other)) {
		out = append(out, s[i]-other[i])
	}
	return out
}

// String is the median, with the least and the greatest.
func (s Series) String() string {
	return fmt.Sprintf("%s (%s..%s)", figure(s.Median()), figure(s.Min()), figure(s.Max()))
}

// figure writes a number with about three significant digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1 || v <= -0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// Goal is what a figure should be.
type Goal struct {
	// Least says that the figure should be at least Limit; otherwise it should be at most Limit.
	Least bool
	Limit float64
}

// AtLeast is the goal of a figure that should not be less.
func AtLeast(limit float64) Goal { return Goal{true, limit} }

// AtMost is the goal of a figure that should not be more.
func AtMost(limit float64) Goal { return Goal{false, limit} }

// Reached reports whether a figure is as it should be.
func (g Goal) Reached(v float64) bool {
	if g.Least {
		return v >= g.Limit
	}
	return v <= g.Limit
}

// String is the goal in signs.
func (g Goal) String() string {
	if g.Least {
		return ">= " + figure(g.Limit)
	}
	return "<= " + figure(g.Limit)
}
