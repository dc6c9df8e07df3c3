package history

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

var (
	seed      = flag.Uint64("history.seed", 0, "run only the program of this seed")
	file      = flag.String("history.case", "", "run only the program in this file")
	histories = flag.Int("history.count", 8, "how many programs to run")
	first     = flag.Uint64("history.first", 1, "the seed of the first program, the others follow; 0: random seeds")
	steps     = flag.Int("history.steps", 50, "steps of a program")
	tries     = flag.Int("history.shrink", 40, "how many programs may be run to shrink one that fails")
)

func check(t *testing.T, p Program, total *Report, name string) {
	t.Helper()
	t.Log(name, p.config)
	start := time.Now()
	if err := Check(t.Context(), p, InMemory, total, *tries); err != nil {
		t.Errorf("%s (run it again with -history.case=FILE): %v", name, err)
	}
	t.Log(time.Since(start))
}

func TestLiveRowsAtEveryCutAreTheFold(t *testing.T) {
	total := NewReport()
	defer func() { t.Logf("histories: %s", total) }()
	if *file != "" {
		p, err := Read(*file)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, total, *file)
		return
	}
	if *seed != 0 {
		check(t, Generate(*seed, *steps), total, fmt.Sprintf("history.seed %d", *seed))
		return
	}
	for i := 0; i < *histories && !t.Failed(); i++ {
		s := *first + uint64(i)
		if *first == 0 {
			s = rand.Uint64()
		}
		check(t, Generate(s, *steps), total, fmt.Sprintf("history.seed %d", s))
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
			p, err := Read(name)
			if err != nil {
				t.Fatal(err)
			}
			check(t, p, NewReport(), name)
		})
	}
}
