package probe

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
	"time"
)

// Geometry of a chart, in SVG user units.
const (
	chartWidth, chartHeight                            = 960, 360
	chartLeft, chartRight, chartTop, chartBottom       = 80, 20, 48, 40
	plotWidth, plotHeight                              = chartWidth - chartLeft - chartRight, chartHeight - chartTop - chartBottom
	plainColour, prunedColour, resetColour, axisColour = "#b3261e", "#1a5fb4", "#6b6b6b", "#444"
)

// Chart draws probe units over time as SVG: plain and pruned by bounds, with a mark where equality deletes were
// removed. Records are in order of time; fewer than two make an empty plot that says so. Equal records give equal
// bytes.
func Chart(w io.Writer, title string, records []Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15">%s</text>`+"\n", chartLeft, html.EscapeString(title))
	if len(records) < 2 || !records[len(records)-1].At.After(records[0].At) {
		fmt.Fprintf(&b, `<text x="%d" y="%d">fewer than two runs: nothing to draw yet</text>`+"\n</svg>\n", chartLeft, chartHeight/2)
	} else {
		newPlot(records).draw(&b)
		b.WriteString("</svg>\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

type plot struct {
	records  []Record
	from, to time.Time
	top      float64 // the value at the upper edge
	step     float64 // between horizontal lines
}

func newPlot(records []Record) *plot {
	p := &plot{records: records, from: records[0].At, to: records[len(records)-1].At}
	highest := 1.0
	for _, r := range records {
		highest = math.Max(highest, math.Max(float64(r.ProbeUnits), float64(r.ProbeUnitsPruned)))
	}
	p.step = roundStep(highest / 5)
	p.top = math.Ceil(highest/p.step) * p.step
	return p
}

// roundStep answers the next of 1, 2, 5, 10 ... that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(math.Max(v, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

func (p *plot) x(at time.Time) float64 {
	return chartLeft + plotWidth*float64(at.Sub(p.from))/float64(p.to.Sub(p.from))
}

func (p *plot) y(v float64) float64 { return chartTop + plotHeight*(1-v/p.top) }

func (p *plot) draw(b *strings.Builder) {
	p.axes(b)
	for _, r := range p.records {
		if r.Reset {
			fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-dasharray="4 3"/>`+"\n", p.x(r.At), chartTop, p.x(r.At), chartTop+plotHeight, resetColour)
		}
	}
	p.line(b, prunedColour, func(r Record) int64 { return r.ProbeUnitsPruned })
	p.line(b, plainColour, func(r Record) int64 { return r.ProbeUnits })
	at := chartLeft
	for _, k := range [][2]string{{plainColour, "probe units"}, {prunedColour, "pruned by key bounds"}, {resetColour, "deletes removed (compaction, drain)"}} {
		fmt.Fprintf(b, `<rect x="%d" y="30" width="14" height="4" fill="%s"/><text x="%d" y="36">%s</text>`+"\n", at, k[0], at+19, k[1])
		at += 40 + 7*len(k[1])
	}
}

func (p *plot) line(b *strings.Builder, colour string, value func(Record) int64) {
	points := make([]string, 0, len(p.records))
	for _, r := range p.records {
		points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(r.At), p.y(float64(value(r)))))
	}
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour, strings.Join(points, " "))
}

func (p *plot) axes(b *strings.Builder) {
	for v := 0.0; v <= p.top+p.step/2; v += p.step {
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="%s">%s</text>`+"\n",
			chartLeft, p.y(v), chartLeft+plotWidth, p.y(v), chartLeft-8, p.y(v)+4, axisColour, Short(int64(v)))
	}
	const ticks = 6
	format := "15:04"
	if p.to.Sub(p.from) > 36*time.Hour {
		format = "01-02 15:04"
	}
	for i := range ticks + 1 {
		at := p.from.Add(time.Duration(float64(p.to.Sub(p.from)) * float64(i) / ticks))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n", p.x(at), chartTop+plotHeight+18, axisColour, at.UTC().Format(format))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s to %s UTC</text>`+"\n",
		chartLeft+plotWidth, chartHeight-6, axisColour, p.from.UTC().Format("2006-01-02 15:04"), p.to.UTC().Format("2006-01-02 15:04"))
}

// Short writes a number with at most four digits and a decimal prefix: 1234567 is 1.23M.
func Short(n int64) string {
	v, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G", "T", "P", "E"} {
		if math.Abs(v) < 1000 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "" {
		return fmt.Sprint(n)
	}
	digits := 2
	if math.Abs(v) >= 100 {
		digits = 0
	} else if math.Abs(v) >= 10 {
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + unit
}
