package physical

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/harness"
)

var besideCommits = flag.Int("physical.commits", 25, "that each writer beside the drain makes at most; it ends when the compactions have")

// besideTables are the tables that are written, compacted and drained at the same time.
func besideTables() []map[string]any {
	return []map[string]any{
		{"table": "busy_v2", "version": 2, "partitioned": false, "rows": 20, "space": 500, "pause_ms": 400},
		{"table": "busy_v3", "version": 3, "partitioned": true, "rows": 20, "space": 500, "pause_ms": 400},
	}
}

// tally counts what the drains of one table met.
type tally struct {
	runs, killed, gaveUp       int
	commits, conflicts, replan int64
}

// TestDrainBesideOthers drains while a writer commits upserts and Spark compacts. Every third drain is killed at some
// moment. No row may be lost, doubled or come back.
func TestDrainBesideOthers(t *testing.T) {
	w := newWorld(t)
	harness.Python(t, harness.Spark) // the writers do not wait for installations
	harness.SparkJars(t)
	t.Logf("seed %d", *seed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	live := make(chan liveRows, len(besideTables()))
	wrote := make(chan error, len(besideTables()))
	tallies := make(chan error, len(besideTables()))
	counted := make([]tally, len(besideTables()))
	var compactions []harness.Query
	enough := filepath.Join(w.lake.Dir, "enough")
	for i, table := range besideTables() {
		table["seed"], table["commits"], table["stop"] = *seed+int64(i), *besideCommits, enough
		name := table["table"].(string)
		go func() {
			l, err := w.upsert(ctx, table)
			if err == nil {
				live <- l[0]
			}
			wrote <- err
		}()
		go func() { tallies <- w.drainUntil(ctx, name, uint64(*seed)+uint64(i), &counted[i]) }()
		compactions = append(compactions, compact(name)...)
	}
	compacted, refused := 0, 0
	for _, a := range w.ask(t, harness.Spark, interleave(compactions)) {
		if a.Error != "" {
			refused++
			t.Logf("compaction: %.200s", a.Error)
			continue
		}
		compacted++
	}
	if err := os.WriteFile(enough, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]bool{}
	for range besideTables() {
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		l := <-live
		want[l.Table] = l.rows()
	}
	stop()
	for range besideTables() {
		if err := <-tallies; err != nil {
			t.Error(err)
		}
	}
	var names []string
	for i, table := range besideTables() {
		name := table["table"].(string)
		names = append(names, name)
		w.drained(t, name, w.indexFlags()...)
		t.Logf("%s: %+v", name, counted[i])
		if counted[i].commits == 0 || counted[i].killed == 0 {
			t.Errorf("%s: nothing was tested: %+v", name, counted[i])
		}
	}
	t.Logf("%d compactions, %d refused for conflicts", compacted, refused)
	for _, engine := range []harness.Engine{harness.Spark, harness.PyIceberg} {
		for name, a := range w.ask(t, engine, all(names)) {
			compare(t, fmt.Sprintf("%s, %s", name, engine), want[name], a)
		}
	}
}

// indexFlags let the drains of the busy tables use the index, which a killed drain leaves in any state.
func (w *world) indexFlags() []string {
	return []string{"--index-dir", filepath.Join(w.lake.Dir, "index")}
}

// liveRows is what a writer says that its table must hold.
type liveRows struct {
	Table string
	Live  [][2]int64
}

func (l liveRows) rows() map[string]bool {
	rows := map[string]bool{}
	for _, r := range l.Live {
		rows[fmt.Sprintf("%d=%d", r[0], r[1])] = true
	}
	return rows
}

// upsert writes tables, several at once, and answers what each of them must hold.
func (w *world) upsert(ctx context.Context, tables ...map[string]any) ([]liveRows, error) {
	lines, err := w.write(ctx, map[string]any{"upserts": tables})
	if err != nil {
		return nil, err
	}
	if len(lines) != len(tables) {
		return nil, fmt.Errorf("the writer printed %d lines", len(lines))
	}
	live := make([]liveRows, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &live[i]); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// compact are the statements of Spark's compaction of one table: with and without the sequence number that the
// rewritten files had.
func compact(table string) []harness.Query {
	const statement = `CALL %s.system.rewrite_data_files(table => '%s.%s', options => map('min-input-files', '2', 'delete-file-threshold', '1', 'max-concurrent-file-group-rewrites', '2', 'use-starting-sequence-number', '%t'))`
	var queries []harness.Query
	for i := range 2 {
		queries = append(queries, harness.Query{ID: fmt.Sprint(table, i), SQL: fmt.Sprintf(statement, cat, namespace, table, i%2 == 0)})
	}
	return queries
}

// interleave takes from both halves by turns.
func interleave(q []harness.Query) []harness.Query {
	var mixed []harness.Query
	for i := range len(q) / 2 {
		mixed = append(mixed, q[i], q[len(q)/2+i])
	}
	return mixed
}

// drainUntil drains a table again and again until ctx ends. It answers what must not happen: a drain that fails for
// another reason than others being faster, before the table is there, or being killed.
func (w *world) drainUntil(ctx context.Context, table string, seed uint64, count *tally) error {
	r := rand.New(rand.NewPCG(seed, 1))
	var failed []error
	for ctx.Err() == nil {
		// A daemon's pace: drains without a pause would let the slower compactor never commit.
		select {
		case <-time.After(time.Duration(200+r.IntN(600)) * time.Millisecond):
		case <-ctx.Done():
		}
		kill := r.IntN(3) == 0
		out, errs, err := w.drainOnce(table, kill, time.Duration(r.IntN(700))*time.Millisecond)
		var report struct {
			Snapshots          []int64
			Conflicts, Replans int64
		}
		switch {
		case err == nil:
			count.runs++
			if err := json.Unmarshal(out, &report); err != nil {
				failed = append(failed, err)
			}
			count.commits += int64(len(report.Snapshots))
			count.conflicts += report.Conflicts
			count.replan += report.Replans
		case kill:
			count.killed++
		case strings.Contains(errs, "not found") && count.commits == 0: // the writer has not made it yet
		case strings.Contains(errs, "conflict"):
			count.gaveUp++
		default:
			failed = append(failed, fmt.Errorf("drain %s: %w\n%s", table, err, errs))
		}
	}
	return errors.Join(failed...)
}

// drainOnce runs drain to its end, or kills it after a while.
func (w *world) drainOnce(table string, kill bool, after time.Duration) (out []byte, errs string, err error) {
	cmd, stdout, stderr := w.command(w.lake, append([]string{"drain", namespace + "." + table, "--format", "json", "--quiet"}, w.indexFlags()...)...)
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	if kill {
		timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // it may have ended just now
		defer timer.Stop()
	}
	err = cmd.Wait()
	return stdout.Bytes(), stderr.String(), err
}

// compare holds the rows that an engine reads against those that the writer remembers.
func compare(t *testing.T, what string, want map[string]bool, a harness.Answer) {
	t.Helper()
	if a.Error != "" {
		t.Errorf("%s: %s", what, a.Error)
		return
	}
	id, v := slices.Index(a.Columns, "id"), slices.Index(a.Columns, "v")
	seen := map[string]bool{}
	wrong := 0
	for _, row := range a.Rows {
		key := fmt.Sprintf("%v=%v", row[id], row[v])
		if seen[key] || !want[key] {
			wrong++
			t.Logf("%s: row %s is doubled or has come back", what, key)
		}
		seen[key] = true
	}
	for key := range want {
		if !seen[key] {
			wrong++
			t.Logf("%s: row %s is lost", what, key)
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d rows are wrong", what, wrong, len(want))
	}
}
