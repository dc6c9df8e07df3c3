package bench

import (
	"fmt"
	"testing"
)

const (
	backlogFiles, backlogRows   = 8, 250_000
	backlogCommits, backlogKeys = 116, 190_000
	// oneFileKeys are the keys of the delete file that does not fit into a batch.
	oneFileKeys = 5_000_000
	// A limit that the delete files exceed ten times, and a larger one.
	backlogLimit, backlogLarge = 16 << 20, 64 << 20
	// keyHeld is the least that a key takes in memory, bytes: three quarters of a table are filled at the most.
	keyHeld = 32
)

// benchBacklog is part (m): the most that a drain has in memory, of deletes that do not fit.
func benchBacklog(t *testing.T, _ *field, r *report) {
	w := startLakeside(t)
	r.part("m", fmt.Sprintf("peak memory of frazil drain: %d rows, then %d commits of %d keys to delete each", backlogFiles*backlogRows, backlogCommits, backlogKeys))
	table := foreignTable{Version: 3, Files: backlogFiles, Rows: backlogRows, Seed: 1}
	small, large, single := table, table, table
	small.Name, small.Commits, small.Keys = "fits", 1, 100_000
	large.Name, large.Commits, large.Keys = "many_files", backlogCommits, backlogKeys
	single.Name, single.Commits, single.Keys = "one_file", 1, oneFileKeys
	var idle, fits cost
	for _, at := range []struct {
		foreignTable
		limits []int
	}{{small, []int{backlogLimit}}, {large, []int{backlogLimit, backlogLarge}}, {single, []int{backlogLimit}}} {
		before := w.write(t, at.foreignTable)
		for _, limit := range at.limits {
			w.rewind(t, at.Name, before.Snapshot)
			memory := fmt.Sprintf("--memory=%d", limit)
			var plan struct{ Batches, Passes int }
			w.frazil(t, &plan, "drain", at.Name, memory, "--dry-run")
			var d drained
			c := w.frazil(t, &d, "drain", at.Name, memory)
			if d.DeleteKeys != int64(at.Commits*at.Keys) {
				t.Fatalf("%d keys were drained of %s", d.DeleteKeys, at.Name)
			}
			r.printf("  %s: %d keys, %.1f MB of delete files, %.1f times --memory of %d MiB, %.1f times as they are held", at.Name, d.DeleteKeys,
				float64(before.DeleteBytes)/1e6, float64(before.DeleteBytes)/float64(limit), limit>>20, float64(d.DeleteKeys*keyHeld)/float64(limit))
			r.printf("    %d batches, %d passes over the data files in each; %d rows scanned, %d positions", d.Batches, plan.Passes, d.RowsScanned, d.Positions)
			r.row("seconds", Series{c.wall}, "s")
			r.row("processor time", Series{c.cpu}, "s")
			r.row("read from the store", Series{float64(c.read) / 1e6}, "MB")
			if fits.peak == 0 {
				fits = c
				idle = w.frazil(t, &d, "drain", at.Name, memory) // nothing is left to drain
				r.row("VmHWM of a drain that has nothing to do", Series{peakOf(idle)}, "MB")
			}
			r.row("VmHWM", Series{peakOf(c)}, "MB")
			r.row("VmHWM less that of nothing to do / --memory", Series{float64(c.peak-idle.peak) / float64(limit)}, "")
			if at.Name != small.Name && limit == backlogLimit {
				r.ratio("VmHWM / that of deletes that fit", Series{float64(c.peak) / float64(fits.peak)}, "", AtMost(1.2))
			}
		}
	}
}
