package harness

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/freeport"
)

// BinaryVariable names a binary to test instead of one that is built.
const BinaryVariable = "FRAZIL_BIN"

// Options is the command line of a gateway, beyond what the harness chooses.
type Options struct {
	Brokers  string // host:port[,host:port…]
	Registry string // URL, or empty
	Auth     string // none or token; empty is the binary's default
	Config   string // YAML, or empty
	DataDir  string // empty: one of the test's
	// OpenFiles is how many files the process may have open (ulimit -n); 0 is this process's own limit.
	OpenFiles int
}

// Frazil is a running gateway. Stop or Kill it and Start it again: it keeps its addresses and its data.
type Frazil struct {
	REST    string // base URL of the catalog
	binary  string
	files   int // most open ones, or 0
	dir     string
	args    []string
	process *process
}

// Binary builds the gateway, once for the test binary's run.
func Binary(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(BinaryVariable); named != "" {
		return named
	}
	out := filepath.Join(Cache(t, "bin"), "frazil-under-test")
	cmd := exec.Command("go", "build", "-tags", "invariant", "-o", out, "./cmd/frazil")
	cmd.Dir = filepath.Join(Root(t), "services")
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build frazil: %v\n%s", err, tail(printed))
	}
	return out
}

// StartFrazil starts a gateway with an empty data folder and waits until it is ready.
func StartFrazil(t testing.TB, o Options) *Frazil {
	t.Helper()
	f := NewFrazil(t, o)
	f.Start(t)
	return f
}

// NewFrazil prepares a gateway that is not started yet.
func NewFrazil(t testing.TB, o Options) *Frazil {
	t.Helper()
	rest, s3 := freeport.Address(t), freeport.Address(t)
	f := &Frazil{REST: "http://" + rest, binary: Binary(t), files: o.OpenFiles, dir: t.TempDir()}
	f.args = []string{"up", "--brokers", o.Brokers, "--data-dir", cmp.Or(o.DataDir, filepath.Join(f.dir, "data")), "--rest-listen", rest, "--s3-listen", s3}
	if o.Registry != "" {
		f.args = append(f.args, "--registry", o.Registry)
	}
	if o.Auth != "" {
		f.args = append(f.args, "--auth", o.Auth)
	}
	if o.Config != "" {
		file := filepath.Join(f.dir, "frazil.yaml")
		if err := os.WriteFile(file, []byte(o.Config), 0o600); err != nil {
			t.Fatal(err)
		}
		f.args = append(f.args, "--config", file)
	}
	return f
}

// Start starts the gateway and waits until it is ready.
func (f *Frazil) Start(t testing.TB) {
	t.Helper()
	f.Launch(t)
	f.Await(t, "/readyz")
}

// Await waits until a path of the REST port (/livez, /readyz) answers 200.
func (f *Frazil) Await(t testing.TB, path string) {
	t.Helper()
	Eventually(t, "frazil answers "+path, func() error {
		if err := f.process.running(); err != nil {
			t.Fatal(err)
		}
		status, _, err := f.Get(t.Context(), path, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s answers %d", path, status)
		}
		return err
	})
}

// Launch starts the gateway and does not wait.
func (f *Frazil) Launch(t testing.TB) {
	t.Helper()
	cmd := exec.Command(f.binary, f.args...)
	if f.files > 0 {
		limited := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, f.files)
		cmd = exec.Command("sh", append([]string{"-c", limited, f.binary}, f.args...)...)
	}
	// FRAZIL_… in the environment is configuration: the tests' own variables are not the gateway's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	f.process = start(t, "frazil", f.dir, cmd)
}

// Stop ends the gateway in good order and checks that it was.
func (f *Frazil) Stop(t testing.TB) {
	t.Helper()
	if err := f.process.stop(t); err != nil {
		t.Errorf("frazil ended with %v\n%s", err, f.process.tail())
	}
}

// Kill ends the gateway as a crash would.
func (f *Frazil) Kill() { f.process.kill() }

// Log is what the gateway has printed.
func (f *Frazil) Log(t testing.TB) string {
	t.Helper()
	out, err := os.ReadFile(f.process.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Get asks the REST port for a path, with a bearer token if it is not empty.
func (f *Frazil) Get(ctx context.Context, path, token string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.REST+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// Namespace holds all tables.
const Namespace = "kafka"

// TableName is the table of a topic: lower case, and every character outside [a-z0-9_] as _.
func TableName(topic string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(topic))
}

// Refusal loads a table that must be refused, and answers the status and the message.
func (f *Frazil) Refusal(t testing.TB, warehouse, table, token string) (status int, kind, message string) {
	t.Helper()
	status, body, err := f.Get(t.Context(), fmt.Sprintf("/v1/%s/namespaces/%s/tables/%s", warehouse, Namespace, table), token)
	if err != nil {
		t.Fatalf("load %s: %v", table, err)
	}
	var e struct {
		Error struct {
			Message, Type string
			Code          int
		}
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Message == "" {
		t.Fatalf("load %s: status %d without an error model: %s", table, status, tail(body))
	}
	return status, e.Error.Type, e.Error.Message
}

// Metrics is what the metrics endpoint shows: by name, the sum over all labels.
func (f *Frazil) Metrics(t testing.TB) map[string]float64 {
	t.Helper()
	status, body, err := f.Get(t.Context(), "/metrics", "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("metrics: %d, %v", status, err)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		name := line[:strings.IndexAny(line+" ", "{ ")]
		fields := strings.Fields(line[strings.LastIndex(line, "}")+1:])
		if !strings.Contains(line, "}") {
			fields = fields[1:]
		}
		v, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			t.Fatalf("metrics: %q: %v", line, err)
		}
		sums[name] += v
	}
	return sums
}
