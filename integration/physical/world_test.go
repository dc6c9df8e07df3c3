package physical

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// namespace holds all tables, cat is the name that engines have for the catalog.
const (
	namespace = "shop"
	cat       = "lake"
)

// world is a lake and who works on it.
type world struct {
	lake    *harness.Lake
	binary  string
	foreign *harness.Program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	harness.NeedFull(t, "a catalog and writers in Java, and Spark")
	return &world{
		lake: harness.StartLake(t), binary: harness.Binary(t),
		foreign: harness.IcebergProgram(t, filepath.Join(harness.Root(t), "integration", "physical", "foreign")),
	}
}

// write gives the Java library a job and answers what it prints.
func (w *world) write(ctx context.Context, job map[string]any) ([]json.RawMessage, error) {
	properties := w.lake.Properties()
	properties["uri"] = w.lake.URI
	job["catalog"], job["namespace"] = properties, namespace
	return w.foreign.Run(ctx, job)
}

// command is one of the built binary, on a lake.
func (w *world) command(lake *harness.Lake, args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	cmd = exec.Command(w.binary, append(args, lake.Flags()...)...)
	// FRAZIL_… in the environment is configuration of the gateway.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd, out, errs
}

// frazil runs a command of the built binary to its end.
func (w *world) frazil(t testing.TB, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd, stdout, stderr := w.command(w.lake, args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// must runs a command that has to succeed.
func (w *world) must(t testing.TB, args ...string) string {
	t.Helper()
	out, errs, code := w.frazil(t, args...)
	if code != 0 {
		t.Fatalf("frazil %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// ask puts statements to Spark, or queries to another engine.
func (w *world) ask(t testing.TB, engine harness.Engine, queries []harness.Query) map[string]harness.Answer {
	t.Helper()
	for i := range queries {
		queries[i].Catalog = cat
	}
	return harness.Ask(t, engine, map[string]harness.Catalog{cat: w.lake.Catalog()}, queries)
}

// metadata is the table as the catalog has it.
func (w *world) metadata(t testing.TB, table string) (m struct {
	Specs []struct {
		ID     int32 `json:"spec-id"`
		Fields []any `json:"fields"`
	} `json:"partition-specs"`
	Current int64 `json:"current-snapshot-id"`
}) {
	t.Helper()
	resp, err := http.Get(w.lake.URI + "/v1/namespaces/" + namespace + "/tables/" + table)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer := struct{ Metadata any }{&m}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("table %s: status %d, %v", table, resp.StatusCode, err)
	}
	return m
}

// rowsOf are the rows of an answer in an order that does not depend on the engine. Structs become lists: Trino's client
// does not tell the names of their fields.
func rowsOf(a harness.Answer) []string {
	rows := make([]string, len(a.Rows))
	for i, row := range a.Rows {
		for j, v := range row {
			if who, ok := v.(map[string]any); ok {
				row[j] = []any{who["num"], who["tag"]}
			}
		}
		rows[i] = a.Row(i)
	}
	slices.Sort(rows)
	return rows
}
