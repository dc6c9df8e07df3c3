package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/telemetry"
	"github.com/frazil-io/frazil/services/app"
)

var (
	minutes = flag.Float64("soak.minutes", 0, "run random programs for so long; 0: two programs")
	seed    = flag.Uint64("soak.seed", 0, "run only the program of this seed")
	file    = flag.String("soak.case", "", "run only the program in this file")
	length  = flag.Int("soak.steps", 40, "steps of a program")
	tries   = flag.Int("soak.shrink", 40, "how many programs may be run to shrink one that fails")
)

// child is the variable that makes the test binary the product: its value is the configuration file.
const child = "SOAK_CHILD"

func TestMain(m *testing.M) {
	file := os.Getenv(child)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := product(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// product is the product as `frazil up` runs it, with a retention that no operator may choose: snapshots come and go
// within a program.
func product(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := app.Default()
	if err := config.Load(file, nil, &c); err != nil {
		return err
	}
	tel, err := telemetry.New(ctx, c.Telemetry, "frazil", "soak", os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(app.Run(ctx, c, app.TargetAll, tel), tel.Shutdown(context.WithoutCancel(ctx)))
}

// report counts what was done, by word.
type report struct {
	programs int
	steps    map[string]int
	reads    map[string]int // by outcome
	folded   float64        // marks
}

func (r *report) String() string {
	list := func(m map[string]int) string {
		var out []string
		total := 0
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, fmt.Sprintf("%s %d", k, m[k]))
			total += m[k]
		}
		return fmt.Sprintf("%d (%s)", total, strings.Join(out, ", "))
	}
	faults := map[string]int{}
	for _, w := range []string{"evict", "loseruns", "restart", "kill", "logstart", "recreate", "addparts"} {
		faults[w] = r.steps[w]
	}
	return fmt.Sprintf("%d programs, steps %s\nreads %s\nfaults injected %s\nmarks folded, as far as counted before a kill: %.0f",
		r.programs, list(r.steps), list(r.reads), list(faults), r.folded)
}

func TestSoak(t *testing.T) {
	total := &report{steps: map[string]int{}, reads: map[string]int{}}
	defer func() { t.Logf("soak: %s", total) }()
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			t.Fatal(err)
		}
		check(t, total, string(text), 0)
		return
	}
	if *seed != 0 {
		check(t, total, generate(*seed, *length).String(), *seed)
		return
	}
	end := time.Now().Add(time.Duration(*minutes * float64(time.Minute)))
	for i := 0; (*minutes > 0 && time.Now().Before(end) || *minutes == 0 && i < 2) && !t.Failed(); i++ {
		s := rand.Uint64()
		check(t, total, generate(s, *length).String(), s)
	}
}

// TestCases runs the programs that failed once.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			check(t, &report{steps: map[string]int{}, reads: map[string]int{}}, string(text), 0)
		})
	}
}

// check runs a program. One that fails is shrunk and printed.
func check(t *testing.T, total *report, text string, s uint64) {
	t.Helper()
	p, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	total.programs++
	failed := run(t, p, total)
	if failed == nil {
		return
	}
	t.Errorf("soak.seed %d: %v\n--- program\n%s", s, failed, p)
	var last *failure
	small := shrink(p, *tries, func(less program) bool {
		f := run(t, less, &report{steps: map[string]int{}, reads: map[string]int{}})
		if f != nil && f.kind == failed.kind {
			last = f
			return true
		}
		return false
	})
	if last != nil {
		t.Errorf("shrunk: %v\n--- case\n%s", last, small)
	}
}
