package harness

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// The engines of the matrix, and those that are asked beside it.
const (
	PyIceberg  Engine = "pyiceberg"
	DuckDB     Engine = "duckdb"
	Spark      Engine = "spark"
	ClickHouse Engine = "clickhouse" // no deletion vectors in 26.9: v2 only
	Flink      Engine = "flink"
	Trino      Engine = "trino"
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
	S3        string `json:"s3,omitempty"` // endpoint, for Trino, which does not take it from the catalog
	// Properties are what the catalog does not tell of the store, under Iceberg's names.
	Properties map[string]string `json:"properties,omitempty"`
}

// Query asks for all rows of a table.
type Query struct {
	ID       string `json:"id"`
	Catalog  string `json:"catalog"`
	Table    string `json:"table"`              // namespace.table
	Snapshot int64  `json:"snapshot,omitempty"` // 0 is the current one
	Tag      string `json:"tag,omitempty"`      // instead of Snapshot
	Where    string `json:"where,omitempty"`    // SQL
	Count    bool   `json:"count,omitempty"`    // ask for the number of rows only
	SQL      string `json:"sql,omitempty"`      // Spark: a statement instead of a table
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

// Python is a Python with PyIceberg, DuckDB and what the oracle needs, and with what other engines need.
func Python(t testing.TB, others ...Engine) string {
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
	for _, engine := range others {
		wants := filepath.Join(scripts, "requirements-"+string(engine)+".txt")
		install(t, Cache(t, "python-"+string(engine)), read(t, wants)+dir, func() error {
			return command(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wants)
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
	program := asker(t, engine, catalogs)
	answers := map[string]Answer{}
	for _, batch := range batches(engine, queries) {
		for _, a := range program(map[string]any{"catalogs": catalogs, "queries": batch}) {
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

// asker installs an engine, starts what it needs, and is the program that asks it.
func asker(t testing.TB, engine Engine, catalogs map[string]Catalog) func(job any) []Answer {
	t.Helper()
	run := func(python string, env ...string) func(any) []Answer {
		return func(job any) []Answer { return script(t, python, "run_"+string(engine)+".py", job, env...) }
	}
	switch engine {
	case Spark:
		return run(Python(t, engine), SparkJars(t))
	case Trino:
		python := Python(t, engine)
		return run(python, "TRINO_PORT="+startTrino(t, catalogs))
	case ClickHouse:
		return run(Python(t, engine))
	case Flink:
		return func(job any) []Answer { return answersOf(t, flink(t), job) }
	default:
		return run(Python(t))
	}
}

// SparkJars installs what Spark needs to read Iceberg tables, and answers the line of the environment that its scripts
// look for.
func SparkJars(t testing.TB) string {
	t.Helper()
	libs := jars(t, "spark", sparkPOM, false)
	found, err := filepath.Glob(filepath.Join(libs, "*.jar"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no jars in %s: %v", libs, err)
	}
	return "SPARK_JARS=" + strings.Join(found, ",")
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
	for _, a := range script(t, Python(t), "fold.py", map[string]any{"registry": registry, "topics": jobs}) {
		if folds[a.ID] == nil {
			folds[a.ID] = map[int64]Answer{}
		}
		folds[a.ID][a.End] = a
	}
	return folds
}

// script runs a Python script of the engines folder.
func script(t testing.TB, python, name string, job any, env ...string) []Answer {
	t.Helper()
	cmd := exec.Command(python, filepath.Join(Root(t), "integration", "engines", name))
	cmd.Env = append(os.Environ(), append(env, "PYTHONDONTWRITEBYTECODE=1")...)
	return answersOf(t, cmd, job)
}

// answersOf runs a program to its end: a job in, a line of JSON for each answer out.
func answersOf(t testing.TB, cmd *exec.Cmd, job any) []Answer {
	t.Helper()
	in, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	// A library's own profile must not add credentials, regions or proxies.
	cmd.Env = append(cmd.Environ(), "AWS_EC2_METADATA_DISABLED=true", "PYICEBERG_HOME=/nonexistent")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(engineRun, func() { _ = cmd.Process.Kill() }) // it may have ended just now
	err = cmd.Wait()
	late.Stop()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, tail(errs.Bytes()))
	}
	var answers []Answer
	lines := json.NewDecoder(&out)
	lines.UseNumber()
	for lines.More() {
		var a Answer
		if err := lines.Decode(&a); err != nil {
			t.Fatalf("%s: %v", cmd.Args[0], err)
		}
		answers = append(answers, a)
	}
	return answers
}
