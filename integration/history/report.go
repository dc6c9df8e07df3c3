package history

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/services/app"
)

// Report counts what was done.
type Report struct {
	programs int
	steps    map[string]int // by word
	reads    map[string]int // by outcome
	traps    map[string]int // that sprung, by what happened
	waits    int            // requests that were repeated
}

// NewReport has counted nothing.
func NewReport() *Report {
	return &Report{steps: map[string]int{}, reads: map[string]int{}, traps: map[string]int{}}
}

// String is the report in lines.
func (r *Report) String() string {
	done := map[string]int{}
	for _, word := range faults() {
		if n := r.steps[word]; n > 0 {
			done[word] = n
		}
	}
	maps.Copy(done, r.traps)
	return fmt.Sprintf("%d programs, steps %s\nreads %s\nfaults injected %s\nrequests repeated %d",
		r.programs, list(r.steps), list(r.reads), list(done), r.waits)
}

func list(m map[string]int) string {
	var out []string
	total := 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
		total += m[k]
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(out, ", "))
}

// shrinkTime bounds shrinking: a program that fails by waiting in vain takes as long as patience lasts.
const shrinkTime = 3 * time.Minute

// Check runs a program. The answer is nil, or says what failed and has the smallest program that was found to fail
// likewise, running at most tries more, and none once shrinking has taken shrinkTime.
func Check(ctx context.Context, p Program, open Opener, total *Report, tries int) error {
	total.programs++
	failed := run(ctx, p, open, total)
	if failed == nil {
		return nil
	}
	last, small, end := failed, p, time.Now().Add(shrinkTime)
	small = Shrink(p, tries, func(less Program) bool {
		if time.Now().After(end) {
			return false
		}
		f := run(ctx, less, open, NewReport())
		if f == nil || f.Kind != failed.Kind {
			return false
		}
		last = f
		return true
	})
	return fmt.Errorf("%w\n--- program\n%s--- shrunk: %w\n--- case%s\n%s", failed, p, last, keep(small), small)
}

// keep writes a case to a file and answers where it is, as a remark.
func keep(p Program) string {
	f, err := os.CreateTemp("", "frazil-case-*.txt")
	if err != nil {
		return ""
	}
	if _, err := f.WriteString(p.String()); err != nil {
		return ""
	}
	if f.Close() != nil {
		return ""
	}
	return ", also in " + f.Name()
}

// metric answers a counter of a process, 0 if it does not answer.
func metric(c app.Config, name string) float64 {
	res, err := http.Get("http://" + c.REST.Listen + "/metrics")
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	sum := 0.0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, name) {
			if v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
				sum += v
			}
		}
	}
	return sum
}
