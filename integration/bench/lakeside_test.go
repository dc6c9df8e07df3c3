package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/harness"
)

// lakeNamespace holds the tables that others write.
const lakeNamespace = "shop"

// lakeside is a lake with tables that the Iceberg Java library writes. All clients but the catalog read the store
// through the tap.
type lakeside struct {
	lake    *harness.Lake // its store is the tap
	tap     *tap
	writer  *harness.Program
	program string
}

func startLakeside(t *testing.T) *lakeside {
	t.Helper()
	w := &lakeside{
		lake: harness.StartLake(t), program: frazilBinary(t),
		writer: harness.IcebergProgram(t, filepath.Join(harness.Root(t), "integration", "bench", "writer")),
	}
	var err error
	if w.tap, err = newTap(strings.TrimPrefix(w.lake.S3, "http://")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.tap.close(); err != nil {
			t.Error(err)
		}
	})
	w.lake.S3 = w.tap.url()
	return w
}

// foreignTable is a table to be written; writer/Foreign.java explains the fields.
type foreignTable struct {
	Name    string `json:"table"`
	Version int    `json:"version"`
	Files   int    `json:"files"`
	Rows    int    `json:"rows"`
	Commits int    `json:"commits"`
	Keys    int    `json:"keys"`
	Upserts bool   `json:"upserts"`
	Seed    int    `json:"seed"`
}

// written is what the writer says of a table.
type written struct {
	Snapshot    int64 `json:"snapshot"`
	DataBytes   int64 `json:"data_bytes"`
	DeleteBytes int64 `json:"delete_bytes"`
}

func (w *lakeside) write(t *testing.T, table foreignTable) (done written) {
	t.Helper()
	properties := w.lake.Properties()
	properties["uri"] = w.lake.URI
	lines, err := w.writer.Run(t.Context(), struct {
		foreignTable
		Catalog   map[string]string `json:"catalog"`
		Namespace string            `json:"namespace"`
	}{table, properties, lakeNamespace})
	if err == nil && len(lines) != 1 {
		err = fmt.Errorf("%d lines", len(lines))
	}
	if err == nil {
		err = json.Unmarshal(lines[0], &done)
	}
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// rewind puts main of a table back to a snapshot.
func (w *lakeside) rewind(t *testing.T, table string, snapshot int64) {
	t.Helper()
	body := fmt.Sprintf(`{"requirements": [], "updates": [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": %d}]}`, snapshot)
	resp, err := http.Post(w.lake.URI+"/v1/namespaces/"+lakeNamespace+"/tables/"+table, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("rewind %s: status %d, %v\n%s", table, resp.StatusCode, err, text)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// snapshot answers the current one of a table.
func (w *lakeside) snapshot(t *testing.T, table string) int64 {
	t.Helper()
	_, body, err := get(t.Context(), w.lake.URI+"/v1/namespaces/"+lakeNamespace+"/tables/"+table, "")
	var answer struct {
		Metadata struct {
			Current int64 `json:"current-snapshot-id"`
		} `json:"metadata"`
	}
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer.Metadata.Current
}

// cost is what a piece of work took.
type cost struct {
	wall, cpu  float64 // seconds
	peak       int64   // bytes in memory at most
	read, sent int64   // bytes from and to the store, as they passed the tap
}

// frazil runs a command of the built program over a table to its end, and decodes what it prints.
func (w *lakeside) frazil(t *testing.T, answer any, command, table string, flags ...string) cost {
	t.Helper()
	args := append([]string{command, lakeNamespace + "." + table, "--format", "json"}, append(flags, w.lake.Flags()...)...)
	cmd := exec.Command(w.program, args...)
	// FRAZIL_… in the environment is configuration of the gateway.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	read, sent, began := w.tap.received.Load(), w.tap.sent.Load(), time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchPeak(cmd.Process.Pid, ended) }()
	err := cmd.Wait()
	close(ended)
	c := cost{wall: time.Since(began).Seconds(), peak: <-peak, read: w.tap.received.Load() - read, sent: w.tap.sent.Load() - sent}
	if err != nil {
		t.Fatalf("frazil %s %s: %v\n%s", command, table, err, errs.Bytes())
	}
	c.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if err := json.Unmarshal(out.Bytes(), answer); err != nil {
		t.Fatalf("frazil %s %s: %v\n%s", command, table, err, out.Bytes())
	}
	return c
}

// peakEvery is how often a process is looked at that ends by itself. What wait(2) says of its memory is no use: it counts
// that of the process which started it, too.
const peakEvery = 5 * time.Millisecond

// watchPeak answers the most that a process has had in memory, until it has ended. The system keeps the peak: what is
// missed is only a rise in the last moment.
func watchPeak(pid int, ended <-chan struct{}) int64 {
	ticker := time.NewTicker(peakEvery)
	defer ticker.Stop()
	most := int64(0)
	for {
		if peak, _, err := peakMemory(pid); err == nil { // else it has just ended
			most = max(most, peak)
		}
		select {
		case <-ended:
			return most
		case <-ticker.C:
		}
	}
}

// spark is a session.
type spark struct {
	pid   int
	tap   *tap
	in    io.Writer
	lines *bufio.Scanner
	stop  func()
}

// sparkMemory is the heap of the session.
const sparkMemory = "2g"

func (w *lakeside) startSpark(t *testing.T) *spark {
	t.Helper()
	cmd := exec.Command(harness.Python(t, harness.Spark), filepath.Join(harness.Root(t), "integration", "bench", "engine", "statements.py"))
	cmd.Env = append(os.Environ(), harness.SparkJars(t), "AWS_EC2_METADATA_DISABLED=true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	errs, err := os.Create(filepath.Join(w.lake.Dir, "spark.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	cmd.Stderr = errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &spark{tap: w.tap, in: in, lines: bufio.NewScanner(out), stop: func() {
		if err := in.Close(); err != nil { // the session ends with its input
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("Spark: %v", err)
		}
	}}
	s.lines.Buffer(nil, 1<<20)
	var first struct{ PID int }
	s.exchange(t, map[string]any{"uri": w.lake.URI, "properties": w.lake.Properties(), "driver_memory": sparkMemory}, &first)
	s.pid = first.PID
	return s
}

func (s *spark) exchange(t *testing.T, line, answer any) {
	t.Helper()
	if err := json.NewEncoder(s.in).Encode(line); err != nil {
		t.Fatal(err)
	}
	if !s.lines.Scan() {
		t.Fatalf("Spark has ended: %v", s.lines.Err())
	}
	if err := json.Unmarshal(s.lines.Bytes(), answer); err != nil {
		t.Fatalf("Spark: %v\n%s", err, s.lines.Bytes())
	}
}

// run puts a statement to the session.
func (s *spark) run(t *testing.T, sql string) (cost, [][]string) {
	t.Helper()
	cpu, err := cpuOf(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	read, sent := s.tap.received.Load(), s.tap.sent.Load()
	var answer struct {
		Seconds float64
		Rows    [][]string
		Error   string
	}
	s.exchange(t, map[string]string{"sql": sql}, &answer)
	if answer.Error != "" {
		t.Fatalf("Spark: %s\n%s", sql, answer.Error)
	}
	after, err := cpuOf(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	peak, _, err := peakMemory(s.pid)
	if err != nil {
		t.Fatal(err)
	}
	return cost{wall: answer.Seconds, cpu: (after - cpu).Seconds(), peak: peak, read: s.tap.received.Load() - read, sent: s.tap.sent.Load() - sent}, answer.Rows
}
