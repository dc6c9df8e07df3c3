package drain_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rowindex"
)

var (
	flagCount = flag.Int("drain.count", 3, "random histories")
	flagSeed  = flag.Uint64("drain.seed", 0, "the seed of one history; 0 = random ones")
)

func config() drain.Config {
	return drain.Config{
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.UnixMilli(1_700_000_100_000) },
		Sleep: func(context.Context, time.Duration) error { return nil }, Memory: 1 << 20,
	}
}

// openIndex opens an index of the main branch that is closed with the test, unless that is done before.
func openIndex(tb *failing, dir string) *rowindex.Index {
	tb.Helper()
	x, err := rowindex.Open(rowindex.Config{Dir: dir, Table: "6a9d7cd0-4f5b-4d0a-9b3e-4a5b5c8e2c01", Branch: "main", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// seeds calls run with each seed.
func seeds(t *testing.T, run func(t *testing.T, seed uint64)) {
	t.Helper()
	if *flagSeed != 0 {
		run(t, *flagSeed)
		return
	}
	for range *flagCount {
		seed := rand.Uint64()
		run(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

type failing struct {
	*testing.T
	seed uint64
	w    *draintest.Writer
}

func (f *failing) note() string {
	if f.w == nil {
		return fmt.Sprintf("seed %d\n", f.seed)
	}
	return fmt.Sprintf("seed %d, %v\n", f.seed, f.w.Log)
}
func (f *failing) Fatal(args ...any) { f.Helper(); f.T.Fatal(append([]any{f.note()}, args...)...) }
func (f *failing) Fatalf(s string, args ...any) {
	f.Helper()
	f.T.Fatalf(f.note()+s, args...)
}

// TestRowsStayAsTheyAre: on random tables a drain changes no visible row and leaves no equality delete.
func TestRowsStayAsTheyAre(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		tb := &failing{T: t, seed: seed}
		r := rand.New(rand.NewPCG(seed, 1))
		w := draintest.New(tb, 2+r.IntN(2))
		x := &draintest.Writer{R: r, W: w, Branch: "main"}
		tb.w = x
		cfg := config()
		if r.IntN(3) == 0 {
			cfg.Memory = 1500 // several batches, several passes
		}
		if r.IntN(2) == 0 {
			cfg.Index = openIndex(tb, t.TempDir())
			defer cfg.Index.Close()
			x.Log = append(x.Log, "index")
		}
		cfg.MergeFrom = r.IntN(4)
		for range 1 + r.IntN(3) {
			for range 1 + r.IntN(12) {
				x.Step()
			}
			if w.Version == 2 && r.IntN(8) == 0 {
				w.Upgrade()
				x.Log = append(x.Log, "upgrade")
			}
			want := w.Visible("main")
			deletes := w.EqualityDeletes("main")
			rep, err := drain.Run(t.Context(), w, cfg)
			if err != nil {
				tb.Fatal(err)
			}
			draintest.Same(tb, "after the drain", w.Visible("main"), want)
			if n := w.EqualityDeletes("main"); n != 0 || int(rep.EqualityDeleteFiles) != deletes {
				tb.Fatalf("%d equality deletes left, %d of %d drained", n, rep.EqualityDeleteFiles, deletes)
			}
			if o := w.Orphans(); len(o) > 0 {
				tb.Fatalf("orphans: %v", o)
			}
			if cfg.MergeFrom > 0 {
				merged(tb, w, cfg.MergeFrom)
			}
			x.Log = append(x.Log, "DRAIN")
		}
	})
}

// merged checks that no data file has several position delete files, or any in version 3.
func merged(tb *failing, w *draintest.World, from int) {
	tb.Helper()
	n := map[string]int{}
	for _, f := range w.Live("main") {
		if f.ContentType() != iceberg.EntryContentPosDeletes || f.FileFormat() != iceberg.ParquetFile {
			continue
		}
		if w.Version >= 3 {
			tb.Fatalf("%s is left in version 3", f.FilePath())
		}
		if ref := f.ReferencedDataFile(); ref != nil {
			if n[*ref]++; n[*ref] >= max(2, from) {
				tb.Fatalf("%s has %d position delete files", *ref, n[*ref])
			}
		}
	}
}

// TestOtherWritersAreFaster: commits of others between plan and commit cost a retry and no row.
func TestOtherWritersAreFaster(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		tb := &failing{T: t, seed: seed}
		r := rand.New(rand.NewPCG(seed, 2))
		w := draintest.New(tb, 2+r.IntN(2))
		x := &draintest.Writer{R: r, W: w, Branch: "main"}
		tb.w = x
		for range 4 + r.IntN(12) {
			x.Step()
		}
		var want []string
		left := 1 + r.IntN(4)
		w.Before = func() {
			if left > 0 && r.IntN(3) > 0 {
				left--
				x.Log = append(x.Log, "[")
				for range 1 + r.IntN(2) {
					x.Step()
				}
				x.Log = append(x.Log, "]")
			}
			want = w.Visible("main")
		}
		want = w.Visible("main")
		cfg := config()
		if r.IntN(2) == 0 {
			cfg.Index = openIndex(tb, t.TempDir())
			defer cfg.Index.Close()
		}
		cfg.MergeFrom = r.IntN(3)
		if _, err := drain.Run(t.Context(), w, cfg); err != nil {
			tb.Fatal(err)
		}
		draintest.Same(tb, "after the drain", w.Visible("main"), want)
		if o := w.Orphans(); len(o) > 0 {
			tb.Fatalf("orphans: %v", o)
		}
	})
}

var errKilled = errors.New("killed")

// TestKilledAtEveryStep: wherever a run ends, rows are as they were, and the next run finishes.
func TestKilledAtEveryStep(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		tb := &failing{T: t, seed: seed}
		r := rand.New(rand.NewPCG(seed, 3))
		w := draintest.New(tb, 2+r.IntN(2))
		x := &draintest.Writer{R: r, W: w, Branch: "main"}
		tb.w = x
		for range 4 + r.IntN(10) {
			x.Step()
		}
		want := w.Visible("main")
		cfg := config()
		if r.IntN(2) == 0 {
			cfg.Memory = 1500
		}
		indexed, dir := r.IntN(2) == 0, t.TempDir()
		for at := 0; ; at++ {
			if indexed {
				cfg.Index = openIndex(tb, dir)
			}
			n := 0
			cfg.Fail = func(string) error {
				if n++; n > at {
					return fmt.Errorf("%w: %w", drain.ErrCrash, errKilled)
				}
				return nil
			}
			_, err := drain.Run(t.Context(), w, cfg)
			if indexed {
				if err := cfg.Index.Close(); err != nil {
					tb.Fatal(err)
				}
			}
			draintest.Same(tb, fmt.Sprintf("killed at step %d", at), w.Visible("main"), want)
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				tb.Fatal(err)
			}
		}
		if n := w.EqualityDeletes("main"); n != 0 {
			tb.Fatalf("%d equality deletes left", n)
		}
	})
}

// TestNobodyKnowsWhatBecameOfACommit: answers that are lost are found out about.
func TestNobodyKnowsWhatBecameOfACommit(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64) {
		tb := &failing{T: t, seed: seed}
		r := rand.New(rand.NewPCG(seed, 4))
		w := draintest.New(tb, 2+r.IntN(2))
		x := &draintest.Writer{R: r, W: w, Branch: "main"}
		for range 4 + r.IntN(10) {
			x.Step()
		}
		want := w.Visible("main")
		lost, steals := 2, 0
		w.Before = func() { // what is asked of a table that moved and does not answer is asked anew
			if steals < 2 && r.IntN(3) == 0 {
				steals++
				x.Step()
				want = w.Visible("main")
			}
		}
		w.Answer = func(err error) error {
			if lost > 0 && r.IntN(2) == 0 {
				lost--
				return fmt.Errorf("the connection broke: %w", fault.ErrUnavailable)
			}
			return err
		}
		rep, err := drain.Run(t.Context(), w, config())
		if err != nil {
			tb.Fatal(err)
		}
		draintest.Same(tb, "after the drain", w.Visible("main"), want)
		if w.Commits != len(rep.Snapshots) {
			tb.Fatalf("%d commits, %d snapshots", w.Commits, len(rep.Snapshots))
		}
		if o := w.Orphans(); len(o) > 0 && steals == 0 { // else some stay: nobody knows that they are not needed
			tb.Fatalf("orphans: %v", o)
		}
	})
}
