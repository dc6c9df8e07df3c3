package bench

import "testing"

func TestSeries(t *testing.T) {
	for _, c := range []struct {
		of               Series
		median, min, max float64
	}{
		{nil, 0, 0, 0},
		{Series{7}, 7, 7, 7},
		{Series{9, 1, 2}, 2, 1, 9},
		{Series{4, 1, 3, 2}, 2.5, 1, 4},
	} {
		if c.of.Median() != c.median || c.of.Min() != c.min || c.of.Max() != c.max {
			t.Errorf("%v: median %v, min %v, max %v; want %v, %v, %v", []float64(c.of), c.of.Median(), c.of.Min(), c.of.Max(), c.median, c.min, c.max)
		}
	}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 5}, {0.9, 9}, {0.91, 10}, {0.99, 10}, {1, 10}} {
		if got := (Series{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}).Quantile(c.q); got != c.want {
			t.Errorf("quantile %v: %v, want %v", c.q, got, c.want)
		}
	}
	if got := (Series{2, 9, 4}).Over(Series{1, 3, 2}); got.Median() != 2 || got.Max() != 3 {
		t.Errorf("ratios are taken round by round, got %v", []float64(got))
	}
	if got := (Series{2, 9}).Minus(Series{1, 3, 2}); len(got) != 2 || got.Max() != 6 {
		t.Errorf("differences are taken round by round, got %v", []float64(got))
	}
	if got, want := (Series{0.012, 1234, 5.678}).String(), "5.68 (0.0120..1234)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGoal(t *testing.T) {
	if g := AtLeast(0.5); !g.Reached(0.5) || g.Reached(0.49) || g.String() != ">= 0.50" {
		t.Errorf("%s", g)
	}
	if g := AtMost(2); !g.Reached(2) || g.Reached(2.01) || g.String() != "<= 2.00" {
		t.Errorf("%s", g)
	}
}
