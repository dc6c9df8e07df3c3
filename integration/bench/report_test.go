package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// report prints rows that are easy to read and to search.
type report struct {
	out    io.Writer
	missed []string
}

func (r *report) printf(format string, args ...any) {
	fmt.Fprintf(r.out, format+"\n", args...)
}

// head says what the figures were measured on.
func (r *report) head(f *field) {
	r.printf("\nmachine   %s, %d cores; load at the start %s", machine(), runtime.NumCPU(), load())
	r.printf("versions  %s, %s/%s%s", runtime.Version(), runtime.GOOS, runtime.GOARCH, kernel())
	r.printf("sizes     %d events per topic, %d rounds; figures are medians (least..greatest)", f.events, f.rounds)
}

func kernel() string {
	out, err := exec.Command("uname", "-r").Output()
	if err != nil {
		return ""
	}
	return ", Linux " + strings.TrimSpace(string(out))
}

func (r *report) part(id, title string) { r.printf("\n(%s) %s", id, title) }

// row prints one figure with its unit.
func (r *report) row(what string, s Series, unit string) { r.printf("  %-52s %s %s", what, s, unit) }

// ratio prints a figure that has a goal.
func (r *report) ratio(what string, s Series, unit string, g Goal) {
	reached := "yes"
	if !g.Reached(s.Median()) {
		reached = "no"
		r.missed = append(r.missed, what)
	}
	r.printf("  ratio %-46s %s %s", what, s, unit)
	r.printf("    target %s   reached %s", g, reached)
}

func (r *report) foot() {
	if len(r.missed) == 0 {
		r.printf("\nall targets reached; load at the end %s\n", load())
		return
	}
	r.printf("\ntargets missed: %s; load at the end %s\n", strings.Join(r.missed, "; "), load())
}

func newReport() *report { return &report{out: os.Stdout} }
