package bench

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/frazil-io/frazil/libs/freeport"
)

// service is one running process of the gateway.
type service struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // set when done is closed
}

// gateway is Frazil, in one process or in four.
type gateway struct {
	rest     string   // base URL
	s3       string   // host:port
	health   []string // base URLs of the processes' metrics
	services []*service
}

// frazilBinary is what `make build` made, without the checks that test builds have.
func frazilBinary(t *testing.T) string {
	t.Helper()
	if named := os.Getenv(harness.BinaryVariable); named != "" {
		return named
	}
	out := filepath.Join(harness.Cache(t, "bin"), "frazil-to-measure")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "./cmd/frazil")
	cmd.Dir = filepath.Join(harness.Root(t), "services")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build frazil: %v\n%s", err, printed)
	}
	return out
}

// startService starts a process and ends it when the test does.
func startService(t *testing.T, name, dir string, cmd *exec.Cmd) *service {
	t.Helper()
	s := &service{name: name, cmd: cmd, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.Env == nil {
		cmd.Env = ownEnvironment()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Logf("%s printed last:\n%s", name, s.tail())
		}
	})
	return s
}

// ownEnvironment is ours without FRAZIL_…, which is configuration to the gateway: ours is not for it.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
}

func (s *service) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

func (s *service) tail() string {
	raw, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}

func (s *service) running() error {
	select {
	case <-s.done:
		return fmt.Errorf("%s has ended: %v\n%s", s.name, s.err, s.tail())
	default:
		return nil
	}
}

// setting is what a gateway is started with.
type setting struct {
	broker, registry string
	memory           int64  // memory.max_bytes, 0 for the default
	more             string // YAML
	materializers    int    // in split mode; 0: one
	cores            int    // of each materializer, 0 for the default
}

func (c setting) yaml(dir, rest, s3 string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s\nkafka: {brokers: [%q]}\nrest: {listen: %q}\ns3: {listen: %q}\n", dir, c.broker, rest, s3)
	if c.registry != "" {
		fmt.Fprintf(&b, "registry: {url: %q}\n", c.registry)
	}
	if c.memory != 0 {
		fmt.Fprintf(&b, "memory: {max_bytes: %d}\n", c.memory)
	}
	return b.String() + c.more
}

// startGateway starts everything in one process.
func startGateway(t *testing.T, c setting) *gateway {
	t.Helper()
	dir, rest, s3 := t.TempDir(), freeport.Address(t), freeport.Address(t)
	file := filepath.Join(dir, "frazil.yaml")
	if err := os.WriteFile(file, []byte(c.yaml(filepath.Join(dir, "data"), rest, s3)), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateway{rest: "http://" + rest, s3: s3, health: []string{"http://" + rest}}
	g.services = []*service{startService(t, "frazil", dir, exec.Command(frazilBinary(t), "up", "--config", file))}
	g.awaitReady(t, g.rest)
	return g
}

// startSplit starts a process for each service, or several materializers.
func startSplit(t *testing.T, c setting) *gateway {
	t.Helper()
	dir, rest, s3 := t.TempDir(), freeport.Address(t), freeport.Address(t)
	catalog, dedup := freeport.Address(t), freeport.Address(t)
	materializers := make([]string, max(1, c.materializers))
	for i := range materializers {
		materializers[i] = freeport.Address(t)
	}
	where := fmt.Sprintf("services:\n  catalog: %q\n  materializer: %q\n  dedup: %q\n", catalog, strings.Join(materializers, ","), dedup)
	g := &gateway{rest: "http://" + rest, s3: s3}
	start := func(name, target, materializer string) {
		health := freeport.Address(t)
		text := c.yaml(filepath.Join(dir, name), rest, s3) + where +
			fmt.Sprintf("  listen: {catalog: %q, materializer: %q, dedup: %q}\nhealth: {listen: %q}\n", catalog, materializer, dedup, health)
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(frazilBinary(t), "serve", "--target="+target, "--config", file)
		cmd.Env = ownEnvironment()
		if target == "materializer" && c.cores > 0 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("GOMAXPROCS=%d", c.cores))
		}
		g.services = append(g.services, startService(t, name, dir, cmd))
		g.health = append(g.health, "http://"+health)
		g.awaitReady(t, "http://"+health)
	}
	start("dedup", "dedup", materializers[0])
	for i, address := range materializers {
		name := "materializer"
		if i > 0 {
			name += fmt.Sprintf("-%d", i+1)
		}
		start(name, "materializer", address)
	}
	start("catalog", "catalog", materializers[0])
	start("edge", "edge", materializers[0])
	return g
}

func (g *gateway) awaitReady(t *testing.T, base string) {
	t.Helper()
	harness.Eventually(t, "the gateway is ready", func() error {
		if err := g.running(); err != nil {
			t.Fatal(err)
		}
		status, _, err := get(t.Context(), base+"/readyz", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
}

func (g *gateway) running() error {
	for _, s := range g.services {
		if err := s.running(); err != nil {
			return err
		}
	}
	return nil
}

func (g *gateway) stop() {
	for _, s := range slices.Backward(g.services) {
		s.stop()
	}
}

// cpu is the time that all processes have computed.
func (g *gateway) cpu(t *testing.T) time.Duration {
	t.Helper()
	total := time.Duration(0)
	for _, s := range g.services {
		d, err := cpuOf(s.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		total += d
	}
	return total
}

// get asks once, with an entity tag if it is not empty.
func get(ctx context.Context, url, etag string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}

// loaded is what the benchmarks need of an answer to loadTable.
type loaded struct {
	Location string            `json:"metadata-location"`
	Config   map[string]string `json:"config"`
	Metadata struct {
		Location  string `json:"location"`
		Snapshots []struct {
			ID           int64             `json:"snapshot-id"`
			ManifestList string            `json:"manifest-list"`
			Summary      map[string]string `json:"summary"`
		} `json:"snapshots"`
	} `json:"metadata"`
}

// tableURL is where a topic's table is loaded.
func (g *gateway) tableURL(topic string) string {
	return g.rest + "/v1/v2/namespaces/" + harness.Namespace + "/tables/" + harness.TableName(topic)
}

// await loads the table of a topic, as often as the gateway says that it is not done yet.
func (g *gateway) await(t *testing.T, topic string) loaded {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var table loaded
	err := await(ctx, "the table of "+topic, 20*time.Millisecond, func() error {
		if err := g.running(); err != nil {
			t.Fatal(err)
		}
		status, body, err := get(ctx, g.tableURL(topic), "")
		switch {
		case err != nil:
			return err
		case status == http.StatusServiceUnavailable:
			return fmt.Errorf("%s", body)
		case status != http.StatusOK:
			t.Fatalf("load %s: %d %s", topic, status, body)
		}
		return json.Unmarshal(body, &table)
	})
	if err != nil {
		t.Fatal(err)
	}
	return table
}
