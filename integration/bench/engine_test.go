package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/libs/freeport"
)

const (
	// Of the S3 server and its catalog.
	plainKey, plainSecret = "admin", "secretsecret"
	plainTable            = "bench.orders"

	aggregateRounds = 9
)

// aggregate reads four of the fourteen columns.
const aggregate = `SELECT status, count(*), sum(amount), avg(weight), max(updated_at) FROM t.%s GROUP BY status ORDER BY status`

// dialects of a served table that are measured.
func dialects() []string { return []string{"v2", "v3"} }

// benchEngine is part (c): an aggregate over the warm table in each dialect, and over the same rows as an ordinary table.
func benchEngine(t *testing.T, f *field, r *report) {
	python := harness.Python(t)
	topic := f.topic(t, formatAvro)
	g := startGateway(t, setting{broker: f.broker, registry: f.registry})
	defer g.stop()
	table := g.await(t, topic.name)
	r.part("c", "seconds of a DuckDB aggregate over the warm table, in a DuckDB that has just started")
	jobs := map[string]map[string]string{"plain": startPlain(t)}
	for _, dialect := range dialects() {
		jobs[dialect] = map[string]string{"uri": g.rest, "warehouse": dialect, "table": harness.Namespace + "." + harness.TableName(topic.name)}
	}
	var copied struct{ Rows, Files, Bytes int64 }
	script(t, python, "copy_rows.py", map[string]any{"from": jobs["v2"], "to": jobs["plain"]}, &copied)
	snapshot := table.Metadata.Snapshots[len(table.Metadata.Snapshots)-1].Summary
	r.printf("  %d events: %s rows in %s files, of which %d are current; beside PyIceberg's table of %d files, %.0f MB, on %s", topic.events,
		snapshot["total-records"], snapshot["total-data-files"], copied.Rows, copied.Files, float64(copied.Bytes)/1e6, harness.SeaweedPackage)
	took, computed := map[string]Series{}, map[string]Series{}
	for round := range aggregateRounds + 1 {
		var expected [][]string
		for name, job := range jobs {
			var answer struct {
				Seconds, CPU float64
				Rows         [][]string
			}
			job["sql"] = fmt.Sprintf(aggregate, job["table"])
			script(t, python, "aggregate.py", job, &answer)
			if round > 0 { // the first one warms
				took[name] = append(took[name], answer.Seconds)
				computed[name] = append(computed[name], answer.CPU)
			}
			rows := rounded(answer.Rows)
			if expected == nil {
				expected = rows
			}
			if !reflect.DeepEqual(rows, expected) {
				t.Fatalf("the tables differ:\n%v\n%v", rows, expected)
			}
		}
	}
	r.row("the ordinary table", took["plain"], "s")
	r.row("  processor time of DuckDB", computed["plain"], "s")
	for _, dialect := range dialects() {
		r.row("the served table, "+dialect, took[dialect], "s")
		r.row("  processor time of DuckDB", computed[dialect], "s")
		r.ratio(dialect+": served / ordinary", took[dialect].Over(took["plain"]), "", AtMost(1.5))
	}
}

// rounded cuts what a sum of doubles in another order may change.
func rounded(rows [][]string) [][]string {
	for _, row := range rows {
		for i, v := range row {
			if whole, fraction, ok := strings.Cut(v, "."); ok && len(fraction) > 6 {
				row[i] = whole + "." + fraction[:6]
			}
		}
	}
	return rows
}

// startPlain starts an S3 server with an Iceberg catalog.
func startPlain(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	at := map[string]string{}
	for _, name := range []string{"master", "filer", "volume", "s3", "iceberg", "admin"} {
		at[name] = freeport.Address(t)
	}
	port := func(name string) string { return strings.TrimPrefix(at[name], "127.0.0.1:") }
	cmd := exec.Command(harness.Seaweed(t), "mini", "-dir="+dir, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.port="+port("master"), "-filer.port="+port("filer"),
		"-volume.port="+port("volume"), "-s3.port="+port("s3"), "-s3.port.iceberg="+port("iceberg"), "-s3.port.lance=0", "-webdav=false",
		"-admin.port="+port("admin"), "-tableBucket=warehouse")
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+plainKey, "AWS_SECRET_ACCESS_KEY="+plainSecret)
	s := startService(t, "weed", t.TempDir(), cmd)
	harness.Eventually(t, "the S3 server and its catalog answer", func() error {
		if err := s.running(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := get(t.Context(), "http://"+at["s3"], ""); err != nil {
			return err
		}
		_, _, err := get(t.Context(), "http://"+at["iceberg"]+"/v1/config", "")
		return err
	})
	return map[string]string{
		"uri": "http://" + at["iceberg"], "warehouse": "s3://warehouse", "credential": plainKey + ":" + plainSecret,
		"s3": "http://" + at["s3"], "key": plainKey, "secret": plainSecret, "table": plainTable,
	}
}

// script runs a Python script of the engine folder: a job in, an answer out.
func script(t *testing.T, python, name string, job, answer any) {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.Join(harness.Root(t), "integration", "bench", "engine", name))
	cmd.Stdin = bytes.NewReader(in)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, errs.Bytes())
	}
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out.Bytes())
	}
}
