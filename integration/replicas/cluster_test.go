package replicas

import (
	"bytes"
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
	"text/template"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
	"github.com/frazil-io/frazil/libs/freeport"
)

// services in starting order: whom others call comes first.
var services = []string{"dedup", "materializer", "catalog", "edge"}

const replicasEach = 2

// configuration of all processes. What differs between them comes from the environment.
const configuration = `
kafka: {brokers: ["{{.Broker}}"]}
state:
  kind: redis
  redis: {addresses: ["{{.Redis}}"], timeout: 1s}
services:
  dedup: {{.Services.dedup}}
  materializer: {{.Services.materializer}}
  catalog: {{.Services.catalog}}
  resolve_every: 1s
rest: {public_uri: "http://{{.REST}}"}
s3: {public_endpoint: "http://{{.S3}}"}
auth: {mode: none}
credentials: {key: one-key-for-all-edges-of-this-test-0001}
freshness: {offsets_ttl: 5ms, topics_ttl: 5ms, min_cut_interval: 5ms, advance_wait: 3s}
shutdown: {grace: 5s}
tables:
  {{.Topic}}: {chunk_log2: {{.Chunk}}, block_log2: {{.Block}}}
dedup: {collect_every: {{if .Retention}}100ms, fold: {every: 100ms, min_marks: 4}{{else}}1s{{end}}}
{{- if .Retention}}
snapshots: {retention: {{.Retention}}, dense: {{.Retention}}, every: 1s}
{{- end}}
telemetry: {log_level: debug}
`

// installation is two processes of every service, over a broker and a Redis, behind load balancers that send clients
// only to edges that run.
type installation struct {
	t      *testing.T
	broker harness.Broker
	redis  *redistest.Server
	dir    string
	binary string

	processes []*process
	rest, s3  *balancer
	producer  *kgo.Client
}

// plan says how large an installation is.
type plan struct {
	chunk, block int // log2 of offsets
	// replicas of every service have an address, the first of them run at the beginning.
	replicas, running int
	// apart: each edge knows one catalog, and each catalog one dedup, so that all replicas of dedup advance the tables
	// at the same time.
	apart bool
	// retention of snapshots; 0: the default.
	retention time.Duration
}

func newInstallation(t *testing.T, chunk, block int) *installation {
	t.Helper()
	return install(t, plan{chunk: chunk, block: block, replicas: replicasEach, running: replicasEach})
}

// install starts the processes.
func install(t *testing.T, plan plan) *installation {
	t.Helper()
	harness.Scale(t)
	in := &installation{t: t, redis: redistest.Start(t), broker: harness.StartBroker(t), dir: t.TempDir(), binary: harness.Binary(t)}
	in.rest, in.s3 = newBalancer(t), newBalancer(t)
	var err error
	in.producer, err = kgo.NewClient(kgo.SeedBrokers(in.broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	in.must(err)
	t.Cleanup(in.producer.Close)
	lists := map[string]string{}
	for _, service := range services {
		var addresses []string
		for i := range plan.replicas {
			p := &process{in: in, service: service, number: i, address: freeport.Address(t), health: freeport.Address(t)}
			addresses = append(addresses, p.address)
			in.processes = append(in.processes, p)
			if service == "edge" {
				p.s3 = freeport.Address(t)
			}
		}
		lists[service] = strings.Join(addresses, ",")
	}
	var text bytes.Buffer
	in.must(template.Must(template.New("").Parse(configuration)).Execute(&text, map[string]any{
		"Broker": in.broker.Addr(), "Redis": in.redis.Addr, "Services": lists, "Topic": topic, "Chunk": plan.chunk, "Block": plan.block,
		"REST": in.rest.address(), "S3": in.s3.address(), "Retention": plan.retention,
	}))
	in.must(os.WriteFile(in.config(), text.Bytes(), 0o600))
	if plan.apart {
		for _, p := range in.processes {
			p.environ = []string{
				"FRAZIL_SERVICES__CATALOG=" + in.of("catalog")[p.number].address, "FRAZIL_SERVICES__DEDUP=" + in.of("dedup")[p.number].address,
			}
		}
	}
	for _, p := range in.processes {
		if p.number < plan.running {
			p.start()
		}
	}
	for _, p := range in.processes {
		if p.number < plan.running {
			p.awaitReady()
		}
	}
	return in
}

func (in *installation) config() string { return filepath.Join(in.dir, "frazil.yaml") }

func (in *installation) must(err error) {
	in.t.Helper()
	if err != nil {
		in.t.Fatal(err)
	}
}

// of answers the processes of a service.
func (in *installation) of(service string) []*process {
	var out []*process
	for _, p := range in.processes {
		if p.service == service {
			out = append(out, p)
		}
	}
	return out
}

// catalog is a client behind the load balancers, which does not wait for ever.
func (in *installation) catalog(warehouse string) *readback.Client {
	return &readback.Client{
		REST: "http://" + in.rest.address(), Warehouse: warehouse, Namespace: harness.Namespace,
		HTTP: &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

// process is one process of a service.
type process struct {
	in                  *installation
	service             string
	number              int
	address, health, s3 string
	environ             []string // configuration of its own

	cmd     *exec.Cmd
	done    chan struct{}
	stopped bool // by SIGSTOP
}

func (p *process) String() string { return fmt.Sprintf("%s %d", p.service, p.number) }

func (p *process) data() string {
	return filepath.Join(p.in.dir, fmt.Sprintf("%s-%d", p.service, p.number))
}

func (p *process) log() string { return p.data() + ".log" }

func (p *process) start() {
	p.in.t.Helper()
	cmd := exec.Command(p.in.binary, "serve", "--target="+p.service, "--config="+p.in.config())
	// FRAZIL_… in the environment is configuration: the tests' own variables are not the service's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	cmd.Env = append(append(cmd.Env, p.environ...), "FRAZIL_DATA_DIR="+p.data(), "FRAZIL_HEALTH__LISTEN="+p.health)
	if p.service == "edge" {
		cmd.Env = append(cmd.Env, "FRAZIL_REST__LISTEN="+p.address, "FRAZIL_S3__LISTEN="+p.s3)
	} else {
		cmd.Env = append(cmd.Env, "FRAZIL_SERVICES__LISTEN__"+strings.ToUpper(p.service)+"="+p.address)
	}
	out, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	p.in.must(err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.in.must(cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(done)
	}()
	p.cmd, p.done = cmd, done
	p.in.t.Cleanup(func() {
		p.kill()
		if p.in.t.Failed() {
			p.in.t.Logf("%s printed last:\n%s", p, p.tail())
		}
	})
}

// tail is the end of the log without what is for debugging.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool { return strings.Contains(l, "level=DEBUG") })
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

// awaitReady waits until the process says that it serves, and lets clients come.
func (p *process) awaitReady() {
	p.in.t.Helper()
	harness.Eventually(p.in.t, p.String()+" is ready", func() error {
		select {
		case <-p.done:
			p.in.t.Fatalf("%s has ended\n%s", p, p.tail())
		default:
		}
		resp, err := http.Get("http://" + p.health + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
			return errors.Join(fmt.Errorf("readyz answers %d: %s", resp.StatusCode, body), err)
		}
		return nil
	})
	p.show(true)
}

// show makes the load balancers send clients to an edge, or no more.
func (p *process) show(up bool) {
	if p.service == "edge" {
		p.in.rest.set(p.address, up)
		p.in.s3.set(p.s3, up)
	}
}

func (p *process) runs() bool { return p.cmd != nil && !p.stopped }

// kill ends the process as a crash does.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	p.show(false)
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
	p.cmd, p.stopped = nil, false
}

// end asks the process to end and waits for it.
func (p *process) end() {
	p.in.t.Helper()
	p.show(false)
	p.in.must(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.in.t.Fatalf("%s does not end\n%s", p, p.tail())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.in.t.Errorf("%s ended with %d\n%s", p, code, p.tail())
	}
	p.cmd, p.stopped = nil, false
}

// stop freezes the process; resume lets it go on.
func (p *process) stop() {
	p.show(false)
	p.in.must(p.cmd.Process.Signal(syscall.SIGSTOP))
	p.stopped = true
}

func (p *process) resume() {
	p.in.must(p.cmd.Process.Signal(syscall.SIGCONT))
	p.stopped = false
	p.show(true)
}
