package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/lifecycle"
	"github.com/frazil-io/frazil/services/edge"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
)

// running is an edge that serves, and its end.
type running struct {
	*edge.Service
	fake   *edgefake.Backend
	cancel context.CancelFunc
	done   chan error
	mu     sync.Mutex
	ready  []bool
}

func (r *running) told() []bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]bool(nil), r.ready...)
}

func deps(fake *edgefake.Backend) edge.Deps {
	return edge.Deps{
		Catalog: fake.Catalog, Dedup: fake.Dedup, Materializer: fake.Materializer,
		VendingKey: []byte("0123456789abcdef0123456789abcdef"), Now: time.Now, Log: slog.New(slog.DiscardHandler), Meter: noop.Meter{},
	}
}

func loopback() edge.Config {
	cfg := edge.Default()
	cfg.REST.Listen, cfg.S3.Listen = "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

var _ lifecycle.Part = (*edge.Service)(nil)

func start(t *testing.T, cfg edge.Config, change func(*edge.Deps)) *running {
	t.Helper()
	r := &running{fake: edgefake.New(t), done: make(chan error, 1)}
	d := deps(r.fake)
	d.Readiness = func(ready bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ready = append(r.ready, ready)
	}
	if change != nil {
		change(&d)
	}
	var err error
	if r.Service, err = edge.New(cfg, d); err != nil {
		t.Fatal(err)
	}
	if r.RESTAddr() != nil || r.S3Addr() != nil {
		t.Error("New listens")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.done <- r.Run(ctx) }()
	<-r.Ready()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	})
	return r
}

func get(t *testing.T, url string, prepare func(*http.Request)) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(r)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return resp, body
}

func loadConfig(t *testing.T, r *running, prepare func(*http.Request)) map[string]string {
	t.Helper()
	resp, body := get(t, "http://"+r.RESTAddr().String()+"/v1/v2/namespaces/kafka/tables/orders", prepare)
	var l struct {
		Config map[string]string `json:"config"`
	}
	if err := json.Unmarshal(body, &l); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	return l.Config
}

// signed signs requests with what was vended.
func signed(t *testing.T, c map[string]string) func(*http.Request) {
	return func(req *http.Request) {
		req.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(t.Context(), aws.Credentials{
			AccessKeyID: c["s3.access-key-id"], SecretAccessKey: c["s3.secret-access-key"], SessionToken: c["s3.session-token"],
		}, req, "UNSIGNED-PAYLOAD", "s3", c["s3.region"], time.Now())
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A table is loaded and a file read with what the answer vended, and with nothing else.
func TestFromTheCatalogToTheBytes(t *testing.T) {
	r := start(t, loopback(), nil)
	want := bytes.Repeat([]byte("row group "), 10_000)
	file := r.fake.DataFile(0, want)
	c := loadConfig(t, r, nil)
	if c["s3.endpoint"] != "http://"+r.S3Addr().String()+"/" {
		t.Errorf("endpoint %q, S3 listens on %v", c["s3.endpoint"], r.S3Addr())
	}
	sign := signed(t, c)
	if resp, body := get(t, c["s3.endpoint"]+"frazil/"+file.Key(), sign); resp.StatusCode != 200 || !bytes.Equal(body, want) {
		t.Errorf("%d, %d bytes", resp.StatusCode, len(body))
	}
	if resp, _ := get(t, c["s3.endpoint"]+"frazil/"+file.Key(), nil); resp.StatusCode != 403 {
		t.Errorf("unsigned: %d", resp.StatusCode)
	}
}

// The load that names a table's next state epoch is the end of the one before: its paths say why.
func TestALoadEndsTheStateEpochBefore(t *testing.T) {
	r := start(t, loopback(), nil)
	file := r.fake.DataFile(0, []byte("rows"))
	c := loadConfig(t, r, nil)
	read := func() (int, string) {
		resp, body := get(t, c["s3.endpoint"]+"frazil/"+file.Key(), signed(t, c))
		return resp.StatusCode, string(body)
	}
	if status, body := read(); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	r.fake.Fail = func(_ context.Context, method, _ string) error {
		if method == "ResolveEpoch" {
			return fmt.Errorf("the topic was created anew: %w", fault.ErrRetired)
		}
		return nil
	}
	loadConfig(t, r, nil)
	if status, body := read(); status != 200 || body != "rows" {
		t.Errorf("a load that names the same state epoch: %d %s", status, body)
	}
	r.fake.Successor = "ponmlkjihgfedcba"
	loadConfig(t, r, nil)
	if status, body := read(); status != 404 || !strings.Contains(body, "created anew") {
		t.Errorf("a load that names another state epoch: %d %s", status, body)
	}
}

func TestVendedEndpoint(t *testing.T) {
	wildcard := loopback()
	wildcard.REST.Listen, wildcard.S3.Listen = "0.0.0.0:0", "0.0.0.0:0"
	wildcard.Auth.Tokens = []edge.TokenConfig{token()}
	r := start(t, wildcard, nil)
	_, port, err := net.SplitHostPort(r.S3Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"lake.example:8181": "lake.example", "lake.example": "lake.example", "[fd00::1]:8181": "[fd00::1]", "10.0.0.7:1": "10.0.0.7"} {
		_, restPort, err := net.SplitHostPort(r.RESTAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		resp, body := get(t, "http://127.0.0.1:"+restPort+"/v1/v2/namespaces/kafka/tables/orders", func(req *http.Request) {
			req.Host = host
			req.Header.Set("Authorization", "Bearer alice-token-0123456")
		})
		if !strings.Contains(string(body), `"s3.endpoint":"http://`+want+":"+port+`/"`) {
			t.Errorf("%s: %d %s", host, resp.StatusCode, body)
		}
	}
	public := loopback()
	public.S3.PublicEndpoint = "https://s3.example"
	if c := loadConfig(t, start(t, public, nil), nil); c["s3.endpoint"] != "https://s3.example/" {
		t.Errorf("public endpoint: %q", c["s3.endpoint"])
	}
}

func TestExtraHandlers(t *testing.T) {
	cfg := loopback()
	cfg.Auth.Tokens = []edge.TokenConfig{token()}
	r := start(t, cfg, func(d *edge.Deps) {
		d.Handlers = map[string]http.Handler{"/livez": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	})
	for path, want := range map[string]int{"/livez": http.StatusTeapot, "/livez/": 404, "/v1/config": 401} {
		if resp, _ := get(t, "http://"+r.RESTAddr().String()+path, nil); resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// The end waits for a request that runs, and takes no new one.
func TestDrain(t *testing.T) {
	r := start(t, loopback(), nil)
	entered, proceed := make(chan struct{}), make(chan struct{})
	r.fake.Fail = func(_ context.Context, m, _ string) error {
		if m == "LoadTable" {
			close(entered)
			<-proceed
		}
		return nil
	}
	status := make(chan int, 1)
	go func() {
		resp, err := http.Get("http://" + r.RESTAddr().String() + "/v1/v2/namespaces/kafka/tables/orders")
		if err != nil {
			status <- 0
			return
		}
		status <- resp.StatusCode
		if err := resp.Body.Close(); err != nil {
			status <- 0
		}
	}()
	<-entered
	r.cancel()
	// The listener closes first; then nobody new gets in.
	for {
		conn, err := net.Dial("tcp", r.RESTAddr().String())
		if err != nil {
			break
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-r.done:
		t.Fatalf("Run ended before the request: %v", err)
	default:
	}
	close(proceed)
	if got := <-status; got != 200 {
		t.Errorf("status %d", got)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if got := r.told(); len(got) != 2 || !got[0] || got[1] {
		t.Errorf("readiness %v", got)
	}
}

// What does not end within the grace is cut off.
func TestGrace(t *testing.T) {
	cfg := loopback()
	cfg.Shutdown.Grace = time.Millisecond
	r := start(t, cfg, nil)
	entered := make(chan struct{})
	r.fake.Fail = func(ctx context.Context, m, _ string) error {
		if m == "LoadTable" {
			close(entered)
			<-ctx.Done()
		}
		return nil
	}
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + r.RESTAddr().String() + "/v1/v2/namespaces/kafka/tables/orders")
		if err == nil {
			err = resp.Body.Close()
		}
		failed <- err
	}()
	<-entered
	r.cancel()
	if err := <-failed; err == nil {
		t.Error("the request ended well")
	}
}

func TestRunReportsATakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, set := range []func(*edge.Config, string){
		func(c *edge.Config, a string) { c.REST.Listen = a }, func(c *edge.Config, a string) { c.S3.Listen = a },
	} {
		cfg := loopback()
		set(&cfg, l.Addr().String())
		s, err := edge.New(cfg, deps(edgefake.New(t)))
		if err != nil {
			t.Fatal(err)
		}
		var op *net.OpError
		if err := s.Run(t.Context()); !errors.As(err, &op) {
			t.Errorf("%v", err)
		}
	}
}

func TestNewChecks(t *testing.T) {
	fake := edgefake.New(t)
	for name, change := range map[string]func(*edge.Config, *edge.Deps){
		"configuration":   func(c *edge.Config, _ *edge.Deps) { c.S3.Bucket = "x" },
		"no vending key":  func(_ *edge.Config, d *edge.Deps) { d.VendingKey = nil },
		"no materializer": func(_ *edge.Config, d *edge.Deps) { d.Materializer = nil },
		"no catalog":      func(_ *edge.Config, d *edge.Deps) { d.Catalog = nil },
	} {
		cfg, d := loopback(), deps(fake)
		change(&cfg, &d)
		if _, err := edge.New(cfg, d); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	cfg, d := loopback(), deps(fake)
	cfg.Credentials.Key, d.VendingKey = config.NewSecret("0123456789abcdef0123456789abcdeX"), nil
	if _, err := edge.New(cfg, d); err != nil {
		t.Errorf("key of the configuration: %v", err)
	}
}
