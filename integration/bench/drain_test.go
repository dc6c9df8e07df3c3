package bench

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
)

const (
	readRounds = 5
	// The table: data files whose keys are spread over all of them, then upserts.
	drainFiles, drainRows   = 8, 250_000
	drainCommits, drainKeys = 40, 5000
	sparkTable              = "lake." + lakeNamespace + "."
	// reading needs four of five columns of all rows.
	reading = `SELECT region, count(*), sum(v), max(amount), sum(id %% 1000003) FROM ` + sparkTable + `%s VERSION AS OF %d GROUP BY region ORDER BY region`
	// rewriting is how Spark gets rid of equality deletes: every data file that one applies to is written anew.
	rewriting = `CALL lake.system.rewrite_data_files(table => '` + lakeNamespace + `.%s', options => map(
		'delete-file-threshold', '1', 'min-input-files', '1', 'remove-dangling-deletes', 'true'))`
)

// drained is what `frazil drain` says.
type drained struct {
	Batches          int
	DeleteKeys       int64 `json:"delete_keys"`
	DataFilesScanned int64 `json:"data_files_scanned"`
	RowsScanned      int64 `json:"rows_scanned"`
	BytesRead        int64 `json:"bytes_read"`
	Positions        int64
}

// backlog is what `frazil probe` says.
type backlog struct {
	Totals struct {
		EqualityDeleteFiles int64 `json:"equality_delete_files"`
		DeleteKeys          int64 `json:"delete_keys"`
		Plain               struct {
			ProbeUnits int64 `json:"probe_units"`
		}
	}
}

// benchDrain is part (l): a table with equality deletes read by Spark before and after, and how it gets there: by
// frazil drain, and by Spark's rewriting of the data files.
func benchDrain(t *testing.T, f *field, r *report) {
	w := startLakeside(t)
	s := w.startSpark(t)
	defer s.stop()
	r.part("l", fmt.Sprintf("%d rows in %d data files, then %d upserts in each of %d commits; Spark's heap is %s", drainFiles*drainRows, drainFiles, drainKeys, drainCommits, sparkMemory))
	for _, version := range []int{2, 3} {
		name := fmt.Sprintf("orders_v%d", version)
		before := w.write(t, foreignTable{Name: name, Version: version, Files: drainFiles, Rows: drainRows, Commits: drainCommits, Keys: drainKeys, Upserts: true, Seed: version})
		var b backlog
		w.frazil(t, &b, "probe", name)
		r.printf("  v%d: %.0f MB of data, %.1f MB of equality deletes, %d probe units", version, float64(before.DataBytes)/1e6, float64(before.DeleteBytes)/1e6, b.Totals.Plain.ProbeUnits)
		after := compareDrains(t, f, r, w, s, version, name, before.Snapshot)
		compareReads(t, r, s, version, name, [3]int64{before.Snapshot, after[0], after[1]})
	}
}

// costs is a series of costs.
type costs []cost

func (c costs) series(of func(cost) float64) (s Series) {
	for _, one := range c {
		s = append(s, of(one))
	}
	return s
}

func wallOf(c cost) float64  { return c.wall }
func cpuTime(c cost) float64 { return c.cpu }
func peakOf(c cost) float64  { return float64(c.peak) / 1e6 }
func readOf(c cost) float64  { return float64(c.read) / 1e6 }
func sentOf(c cost) float64  { return float64(c.sent) / 1e6 }

// compareDrains does away with the equality deletes again and again, each way in turn, and answers the last snapshots.
func compareDrains(t *testing.T, f *field, r *report, w *lakeside, s *spark, version int, name string, from int64) (after [2]int64) {
	var drains, indexed, rewrites costs
	index := []string{"--index-dir", filepath.Join(w.lake.Dir, "index")}
	none := func(what string) {
		var b backlog
		if w.frazil(t, &b, "probe", name); b.Totals.EqualityDeleteFiles > 0 {
			r.printf("  v%d: %d equality delete files are left by %s", version, b.Totals.EqualityDeleteFiles, what)
		}
	}
	var d drained
	for round := range f.rounds + 1 {
		w.rewind(t, name, from)
		one := w.frazil(t, &d, "drain", name)
		after[0] = w.snapshot(t, name)
		w.rewind(t, name, from)
		known := w.frazil(t, &d, "drain", name, index...)
		w.rewind(t, name, from)
		all, _ := s.run(t, fmt.Sprintf(rewriting, name))
		after[1] = w.snapshot(t, name)
		if round == 0 { // it warms Spark, and fills the index
			none("Spark")
			w.rewind(t, name, after[0])
			none("frazil drain")
			continue
		}
		drains, indexed, rewrites = append(drains, one), append(indexed, known), append(rewrites, all)
	}
	for _, figure := range []struct {
		what, unit string
		of         func(cost) float64
	}{{"seconds", "s", wallOf}, {"processor time", "s", cpuTime}, {"read from the store", "MB", readOf}, {"written to it", "MB", sentOf}, {"peak memory", "MB", peakOf}} {
		r.row(fmt.Sprintf("v%d: frazil drain, %s", version, figure.what), drains.series(figure.of), figure.unit)
		r.row("  with an index that knows the data files", indexed.series(figure.of), figure.unit)
		r.row("  Spark's rewrite_data_files", rewrites.series(figure.of), figure.unit)
		r.row("  ratio drain / rewrite_data_files", drains.series(figure.of).Over(rewrites.series(figure.of)), "")
	}
	return after
}

// compareReads reads the table before, drained, and rewritten, in turn.
func compareReads(t *testing.T, r *report, s *spark, version int, name string, snapshots [3]int64) {
	var reads [3]costs
	var expected [][]string
	for round := range readRounds + 1 {
		for i, snapshot := range snapshots {
			c, rows := s.run(t, fmt.Sprintf(reading, name, snapshot))
			if expected == nil {
				expected = rows
			}
			if !reflect.DeepEqual(rows, expected) {
				t.Fatalf("%s reads differently:\n%v\n%v", name, rows, expected)
			}
			if round > 0 {
				reads[i] = append(reads[i], c)
			}
		}
	}
	for _, figure := range []struct {
		what string
		of   func(cost) float64
	}{{"seconds", wallOf}, {"processor time", cpuTime}} {
		before := reads[0].series(figure.of)
		r.row(fmt.Sprintf("v%d: Spark reads it before, %s", version, figure.what), before, "s")
		for i, what := range []string{"drained", "rewritten"} {
			one := reads[i+1].series(figure.of)
			r.row("  "+what, one, "s")
			r.row("  ratio "+what+" / before", one.Over(before), "")
		}
	}
}
