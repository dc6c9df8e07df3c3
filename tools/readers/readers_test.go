package readers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/readers"
)

var rewrite = flag.Bool("rewrite", false, "write the results into testdata")

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := readers.Command().Run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), err
}

// golden compares with a file of testdata; -rewrite writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-rewrite accepts it); got:\n%s", path, got)
	}
}

func TestChoice(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		format string
		v      int
	}{
		{[]string{"spark,snowflake"}, "position", 2},
		{[]string{"spark,flink,trino"}, "equality", 2},
		{[]string{"spark", "databricks"}, "deletion-vector", 3},
		{[]string{"spark,pyiceberg,duckdb,clickhouse,polars,sail"}, "position", 2},
		{[]string{"snowflake,databricks", "--catalog", "glue"}, "deletion-vector", 3},
		{[]string{"dremio,databricks", "--allow-preview"}, "deletion-vector", 3},
		{[]string{"spark", "--catalog", "frazil"}, "position", 2}, // the gateway has no equality deletes
		{[]string{"iceberg-rust"}, "equality", 2},                 // an alias
	} {
		out, err := run(t, append(tc.args, "--format", "json")...)
		if err != nil {
			t.Errorf("%q: %v", tc.args, err)
			continue
		}
		var got struct {
			Choice struct {
				Format  string `json:"delete_format"`
				Version int    `json:"format_version"`
			} `json:"choice"`
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Choice.Format != tc.format || got.Choice.Version != tc.v {
			t.Errorf("%q: %+v", tc.args, got.Choice)
		}
	}
}

func TestOutput(t *testing.T) {
	for name, args := range map[string][]string{
		"choice.txt":  {"spark,snowflake,clickhouse"},
		"choice.json": {"spark,snowflake", "--format", "json"},
		"served.txt":  {"spark,clickhouse", "--catalog", "frazil"},
		"all.txt":     nil,
	} {
		out, err := run(t, args...)
		if err != nil {
			t.Errorf("%q: %v", args, err)
		}
		golden(t, name, out)
	}
}

func TestRefusalNamesWhoCannotMeet(t *testing.T) {
	out, err := run(t, "databricks,dremio")
	if !errors.Is(err, command.ErrFound) || !strings.Contains(err.Error(), "databricks and dremio cannot meet") {
		t.Errorf("error %v", err)
	}
	golden(t, "refusal.txt", out)
	if _, err := run(t, "databricks", "--catalog", "rest"); !errors.Is(err, command.ErrFound) || !strings.Contains(err.Error(), "does not read through Iceberg REST catalog") {
		t.Errorf("error %v", err)
	}
	if _, err := run(t, "bodo"); !errors.Is(err, command.ErrFound) || !strings.Contains(err.Error(), "ignores them without an error") {
		t.Errorf("error %v", err)
	}
}

// Two readers without a common format are no obstacle for the gateway: each gets its own dialect.
func TestTheGatewayNeedsNoCommonFormat(t *testing.T) {
	overlay := filepath.Join(t.TempDir(), "over.yaml")
	text := `sources: {mine: {kind: run, date: 2026-11, title: our own test}}
readers:
  - name: onlyvectors
    title: Only vectors
    versions: "1"
    equality: {support: "no", sources: [mine]}
    position: {support: "no", sources: [mine]}
    deletion_vector: {support: "yes", sources: [mine]}
`
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "clickhouse,onlyvectors", "--matrix", overlay, "--catalog", "frazil", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got readers.Answer
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Dialects["clickhouse"] != "v2" || got.Dialects["onlyvectors"] != "v3" {
		t.Errorf("got %v", got.Dialects)
	}
	if _, err := run(t, "clickhouse,onlyvectors", "--matrix", overlay); !errors.Is(err, command.ErrFound) {
		t.Errorf("error %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"sparc"}, {"spark", "--catalog", "gleu"}, {"spark", "--format", "xml"}, {"spark", "--matrix", "/nowhere"}, {"--nope"}} {
		if _, err := run(t, args...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: error %v", args, err)
		}
	}
	if _, err := run(t, "sparc"); !strings.Contains(err.Error(), "did you mean spark") {
		t.Errorf("error %v", err)
	}
}
