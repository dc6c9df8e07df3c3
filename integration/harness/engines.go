package harness

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

//go:embed spark/pom.xml
var sparkPOM string

// PythonVariable names a Python that has everything, instead of one that is installed into the cache.
const PythonVariable = "FRAZIL_TEST_PYTHON"

// engineRun bounds one run of an engine over all its queries.
const engineRun = 10 * time.Minute

// Engine names an engine.
type Engine string

// The engines of the matrix.
const (
	PyIceberg Engine = "pyiceberg"
	DuckDB    Engine = "duckdb"
	Spark     Engine = "spark"
)

// Engines lists those of the present scale.
func Engines(t testing.TB) []Engine {
	t.Helper()
	if Scale(t) == Full {
		return []Engine{PyIceberg, DuckDB, Spark}
	}
	return []Engine{PyIceberg, DuckDB}
}

// Catalog is a warehouse as an engine is told of it.
type Catalog struct {
	URI       string `json:"uri"`
	Warehouse string `json:"warehouse"`
	Token     string `json:"token,omitempty"`
}

// Query asks for all rows of a table.
type Query struct {
	ID       string `json:"id"`
	Catalog  string `json:"catalog"`
	Table    string `json:"table"`              // namespace.table
	Snapshot int64  `json:"snapshot,omitempty"` // 0 is the current one
	Where    string `json:"where,omitempty"`    // SQL
	Count    bool   `json:"count,omitempty"`    // ask for the number of rows only
}

// Answer is what an engine, or the oracle, says. Values are spelt as canonical.py says.
type Answer struct {
	ID      string   `json:"id"`
	End     int64    `json:"end"` // the oracle's: of the fold
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Count   *int64   `json:"count"`
	Error   string   `json:"error"`
}

// Row is the row as one text, for comparison.
func (a Answer) Row(i int) string {
	var b strings.Builder
	for j, c := range a.Columns {
		v, err := json.Marshal(a.Rows[i][j])
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s=%s ", c, v)
	}
	return b.String()
}

// Offsets answers the kafka_offset of every row.
func (a Answer) Offsets() []string {
	var offsets []string
	for j, c := range a.Columns {
		if c == "kafka_offset" {
			for i := range a.Rows {
				offsets = append(offsets, fmt.Sprint(a.Rows[i][j]))
			}
		}
	}
	return offsets
}

// Python is a Python with PyIceberg, DuckDB and what the oracle needs; with Spark too if asked.
func Python(t testing.TB, withSpark bool) string {
	t.Helper()
	if named := os.Getenv(PythonVariable); named != "" {
		return named
	}
	Need(t, "python3")
	dir := Cache(t, "python")
	python := filepath.Join(dir, "venv", "bin", "python")
	scripts := filepath.Join(Root(t), "integration", "engines")
	install(t, dir, read(t, filepath.Join(scripts, "requirements.txt")), func() error {
		if err := command("python3", "-m", "venv", filepath.Join(dir, "venv")); err != nil {
			return err
		}
		return command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", filepath.Join(scripts, "requirements.txt"))
	})
	if withSpark {
		spark := filepath.Join(scripts, "requirements-spark.txt")
		install(t, Cache(t, "python-spark"), read(t, spark)+dir, func() error {
			return command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", spark)
		})
	}
	return python
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Ask runs an engine over all queries, in as few processes as it allows, and answers by query id.
func Ask(t testing.TB, engine Engine, catalogs map[string]Catalog, queries []Query) map[string]Answer {
	t.Helper()
	python := Python(t, engine == Spark)
	var env []string
	if engine == Spark {
		libs := jars(t, "spark", sparkPOM, false)
		found, err := filepath.Glob(filepath.Join(libs, "*.jar"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no jars in %s: %v", libs, err)
		}
		env = append(env, "SPARK_JARS="+strings.Join(found, ","))
	}
	answers := map[string]Answer{}
	for _, batch := range batches(engine, queries) {
		for _, a := range script(t, python, "run_"+string(engine)+".py", map[string]any{"catalogs": catalogs, "queries": batch}, env...) {
			answers[a.ID] = a
		}
	}
	for _, q := range queries {
		if _, ok := answers[q.ID]; !ok {
			t.Fatalf("%s did not answer %s", engine, q.ID)
		}
	}
	return answers
}

// batches are the queries of each process. DuckDB 1.5.5 keeps one set of storage credentials for a location, and a
// table's location is the same in all warehouses: it gets a process for each.
func batches(engine Engine, queries []Query) [][]Query {
	if engine != DuckDB {
		return [][]Query{queries}
	}
	var all [][]Query
	at := map[string]int{}
	for _, q := range queries {
		i, ok := at[q.Catalog]
		if !ok {
			i, at[q.Catalog] = len(all), len(all)
			all = append(all, nil)
		}
		all[i] = append(all[i], q)
	}
	return all
}

// FoldJob is a captured topic and the ends to fold it at.
type FoldJob struct {
	ID   string  `json:"id"`
	File string  `json:"file"`
	Drop []int64 `json:"drop,omitempty"`
	Ends []int64 `json:"ends"`
}

// Fold asks the oracle; answers are by id and end.
func Fold(t testing.TB, registry string, jobs []FoldJob) map[string]map[int64]Answer {
	t.Helper()
	folds := map[string]map[int64]Answer{}
	for _, a := range script(t, Python(t, false), "fold.py", map[string]any{"registry": registry, "topics": jobs}) {
		if folds[a.ID] == nil {
			folds[a.ID] = map[int64]Answer{}
		}
		folds[a.ID][a.End] = a
	}
	return folds
}

// script runs a Python script of the engines folder: a job in, a line of JSON for each answer out.
func script(t testing.TB, python, name string, job any, env ...string) []Answer {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), engineRun)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join(Root(t), "integration", "engines", name))
	// A library's own profile must not add credentials, regions or proxies.
	cmd.Env = append(os.Environ(), append(env, "PYTHONDONTWRITEBYTECODE=1", "AWS_EC2_METADATA_DISABLED=true", "PYICEBERG_HOME=/nonexistent")...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, tail(errs.Bytes()))
	}
	var answers []Answer
	lines := json.NewDecoder(&out)
	lines.UseNumber()
	for lines.More() {
		var a Answer
		if err := lines.Decode(&a); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answers = append(answers, a)
	}
	return answers
}
