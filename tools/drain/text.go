package drain

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/probe"
)

func kind(version int) string {
	if version >= 3 {
		return "deletion vectors"
	}
	return "position delete files"
}

func forecastText(name string, p *drain.Forecast) string {
	var b strings.Builder
	n := probe.Short
	if p.SnapshotID == 0 {
		return fmt.Sprintf("%s, %s: no snapshot\n", name, p.Branch)
	}
	fmt.Fprintf(&b, "%s, %s: snapshot %d, format version %d\n\n", name, p.Branch, p.SnapshotID, p.FormatVersion)
	if p.EqualityDeleteFiles == 0 {
		b.WriteString("nothing to drain: there are no equality deletes\n")
		return b.String()
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line(w, "equality deletes\t%s files, %s keys, %sB\n", n(p.EqualityDeleteFiles), n(p.DeleteKeys), n(p.EqualityDeleteBytes))
	for _, names := range p.KeyColumns {
		line(w, "\ton %s\n", strings.Join(names, ", "))
	}
	if len(p.Refused) == 0 {
		line(w, "to read\tthe key columns of %s data files, %s rows (the files have %sB), %s\n", n(p.DataFiles), n(p.Rows), n(p.DataBytes), times(p.Passes))
		line(w, "to write\t%s, in %s\n", kind(p.FormatVersion), commits(p.Batches))
		line(w, "gain\t%s probe units, %s after pruning by key bounds\n", n(p.ProbeUnits), n(p.ProbeUnitsPruned))
	}
	w.Flush() //nolint:errcheck // into memory
	for _, r := range p.Refused {
		fmt.Fprintf(&b, "\nrefused: %s\n", r)
	}
	return b.String()
}

// line writes a line of a table into memory.
func line(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, args...) //nolint:errcheck // into memory
}

func times(n int) string {
	if n <= 1 {
		return "once"
	}
	return fmt.Sprintf("%d times (--memory)", n)
}

func commits(n int) string {
	if n == 1 {
		return "one commit"
	}
	return fmt.Sprintf("%d commits (--memory)", n)
}

func resultText(r *Result) string {
	var b strings.Builder
	n := probe.Short
	if len(r.Snapshots) == 0 && r.Error == "" {
		return fmt.Sprintf("%s, %s: nothing to drain%s\n", r.Table, r.Branch, forwarded(r))
	}
	fmt.Fprintf(&b, "%s, %s: %s equality delete files with %s keys drained in %s, %s\n\n", r.Table, r.Branch, n(r.EqualityDeleteFiles), n(r.DeleteKeys),
		commits(len(r.Snapshots)), r.Took.Round(10*time.Millisecond))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line(w, "read\t%s rows of %s data files, %sB\n", n(r.RowsScanned), n(r.DataFilesScanned), n(r.BytesRead))
	if r.DataFilesIndexed+r.DataFilesForgotten > 0 {
		line(w, "index\t%s data files read into it, %s forgotten\n", n(r.DataFilesIndexed), n(r.DataFilesForgotten))
	}
	line(w, "written\t%s %s, %sB, in place of %s; they delete %s rows or more\n", n(r.DeleteFilesAdded), kind(r.FormatVersion), n(r.BytesWritten), n(r.DeleteFilesMerged), n(r.Positions))
	line(w, "gain\t%s probe units, %s after pruning by key bounds\n", n(r.ProbeUnits), n(r.ProbeUnitsPruned))
	if r.Conflicts > 0 {
		line(w, "conflicts\t%d commits were lost to other writers and made again, %d from the beginning\n", r.Conflicts, r.Replans)
	}
	w.Flush() //nolint:errcheck // into memory
	if r.Forwarded != 0 {
		fmt.Fprintf(&b, "\nthe target was moved on to snapshot %d\n", r.Forwarded)
	}
	return b.String()
}

func forwarded(r *Result) string {
	if r.Forwarded == 0 {
		return ""
	}
	return fmt.Sprintf("; the target was moved on to snapshot %d", r.Forwarded)
}

// progress shows how far a run is: a line that is drawn over on a terminal, else a line now and then. It is also where
// log lines go, so that they do not end up in the middle of the bar. Safe for concurrent use.
type progress struct {
	mu       sync.Mutex
	out      io.Writer
	now      func() time.Time
	terminal bool
	quiet    bool

	stage string
	began time.Time // of the stage
	shown time.Time
	drawn bool // a bar is on the line
}

// Intervals of drawing.
const (
	drawEvery  = 200 * time.Millisecond
	printEvery = 15 * time.Second
)

func newProgress(out io.Writer, now func() time.Time, quiet bool) *progress {
	p := &progress{out: out, now: now, quiet: quiet}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	p.shown = now()
	return p
}

func (p *progress) step(s drain.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	now := p.now()
	stage := fmt.Sprintf("%d %s", s.Batch, s.Stage)
	if stage != p.stage {
		p.stage, p.began = stage, now
	}
	every := printEvery
	if p.terminal {
		every = drawEvery
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	line := barText(s, now.Sub(p.began))
	if p.terminal {
		fmt.Fprintf(p.out, "\r%s\x1b[K", line) //nolint:errcheck // a terminal that is gone
		p.drawn = true
		return
	}
	fmt.Fprintln(p.out, line) //nolint:errcheck // a terminal that is gone
}

// barText is one state of the bar.
func barText(s drain.Progress, took time.Duration) string {
	what := map[string]string{"keys": "delete keys", "scan": "rows", "merge": "position delete files", "commit": "data files"}[s.Stage]
	if s.Total <= 0 {
		return fmt.Sprintf("batch %d of %d: %s", s.Batch, s.Batches, s.Stage)
	}
	const width = 20
	share := min(1, float64(s.Done)/float64(s.Total))
	full := int(share * width)
	line := fmt.Sprintf("batch %d of %d: %-6s [%s%s] %3.0f%%  %s of %s %s", s.Batch, s.Batches, s.Stage,
		strings.Repeat("#", full), strings.Repeat(".", width-full), 100*share, probe.Short(s.Done), probe.Short(s.Total), what)
	if took >= time.Second && s.Done > 0 {
		rate := float64(s.Done) / took.Seconds()
		left := time.Duration(float64(s.Total-s.Done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %s/s, %s left", probe.Short(int64(rate)), max(0, left).Round(time.Second))
	}
	return line
}

// Write implements io.Writer for log lines.
func (p *progress) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(line) //nolint:wrapcheck // the handler of the log wants it as it is
}

// clear takes the bar off its line.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K") //nolint:errcheck // a terminal that is gone
		p.drawn = false
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}
