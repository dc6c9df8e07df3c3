package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

const barWidth = 30

func show(out io.Writer, r report, format string) error {
	if format == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := fmt.Fprintf(out, "table %s, topic %s, plan %s\n%s\n", r.Table, r.Topic, r.Plan, summary(r))
	if err != nil || len(r.Walks) == 0 {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if _, err := fmt.Fprintln(w, "partition\tstart\tread from\tend\twanted from\t"); err != nil {
		return err
	}
	for _, k := range r.Walks {
		wanted := "-"
		if k.Wanted < k.Frontier {
			wanted = fmt.Sprint(k.Wanted)
		}
		if _, err := fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\t\n", k.Partition, k.Start, max(k.Start, k.Frontier), k.End, wanted); err != nil {
			return err
		}
	}
	return w.Flush()
}

func summary(r report) string {
	return fmt.Sprintf("%s of %d offsets in %d of %d partitions", bar(r.Read, r.Offsets), r.Offsets, len(r.Walks), r.Partitions)
}

// bar draws a share. Nothing of nothing is all.
func bar(part, whole int64) string {
	share := 1.0
	if whole > 0 {
		share = float64(part) / float64(whole)
	}
	full := int(share * barWidth)
	return fmt.Sprintf("[%s%s] %5.1f %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), share*100)
}

// pace is what --watch measures: the rate since the beginning of the present reading.
type pace struct {
	began time.Time
	at    int64 // offsets that were read then
}

// line is what is said of the present reading.
func (p pace) line(r report, now time.Time) string {
	text := summary(r)
	rate := float64(r.Read-p.at) / max(now.Sub(p.began).Seconds(), 1e-9)
	if r.Read <= p.at || rate <= 0 {
		return fmt.Sprintf("%s, %d wanted", text, r.Wanted)
	}
	left := time.Duration(float64(r.Wanted) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s, %d wanted, %.0f/s, %v left", text, r.Wanted, rate, left)
}

// watch draws a line over and over until nothing is wanted.
func watch(ctx context.Context, out io.Writer, r report, every time.Duration, ask func(context.Context) (report, error)) error {
	p := pace{time.Now(), r.Read}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := fmt.Fprintf(out, "\r\x1b[K%s", p.line(r, time.Now())); err != nil {
			return err
		}
		if r.Wanted == 0 && len(r.Walks) >= r.Partitions {
			_, err := fmt.Fprintln(out)
			return err
		}
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(out) // leaves the line as it is
			return context.Cause(ctx)
		case <-tick.C:
		}
		var err error
		if r, err = ask(ctx); err != nil {
			return fmt.Errorf("progress of table %s: %w", r.Table, err)
		}
	}
}
