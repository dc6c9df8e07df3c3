package s3_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
	"github.com/frazil-io/frazil/services/edge/internal/object"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
	"github.com/frazil-io/frazil/services/edge/internal/s3"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// harness is an S3 endpoint over the fake services, on a real listener, and a client that signs.
type harness struct {
	t      *testing.T
	fake   *edgefake.Backend
	url    string
	vendor *vend.Vendor
	clock  atomic.Int64
	log    func() string
	timers chan *timer // each request's hold
}

// timer is a hold that a test runs out by hand.
type timer struct {
	mu      sync.Mutex
	d       time.Duration
	f       func()
	stopped bool
	fired   bool
}

func (t *timer) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.stopped && !t.fired
	t.stopped = true
	return first
}

// fire runs the timer out and reports whether it had been stopped before.
func (t *timer) fire() (stopped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return true
	}
	t.fired = true
	t.f()
	return false
}

type option func(*s3.Config, *s3.Deps)

func newHarness(t *testing.T, opts ...option) *harness {
	t.Helper()
	h := &harness{t: t, fake: edgefake.New(t), timers: make(chan *timer, 10_000)}
	h.clock.Store(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixNano())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	h.vendor, err = vend.New([]byte("0123456789abcdef0123456789abcdef"), nil, time.Hour)
	must(err)
	store := object.NewStore(h.fake.Catalog, h.fake.Dedup, h.fake.Materializer, h.now)
	var id atomic.Int64
	cfg := s3.Config{Bucket: edgefake.Bucket, Domain: "s3.localhost", Region: "us-east-1", Hold: 20 * time.Second}
	deps := s3.Deps{
		Store: store, Authn: authn.Open(), Vendor: h.vendor, Now: h.now, NewID: func() string { return fmt.Sprint("ID", id.Add(1)) },
		AfterFunc: func(d time.Duration, f func()) func() bool {
			tm := &timer{d: d, f: f}
			h.timers <- tm
			return tm.stop
		},
	}
	for _, o := range opts {
		o(&cfg, &deps)
	}
	handler := s3.New(cfg, deps)
	log, text := edgefake.Log()
	h.log = text.String
	o, err := observe.New(noop.Meter{}, log, h.now)
	must(err)
	srv := httptest.NewServer(o.Handler("s3", handler.Serve))
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

func (h *harness) now() time.Time { return time.Unix(0, h.clock.Load()).UTC() }

func (h *harness) advance(d time.Duration) { h.clock.Add(int64(d)) }

func (h *harness) scope() vend.Scope {
	return vend.Scope{
		Principal: authn.Anonymous, Warehouse: objectname.V2, Namespace: edgefake.Namespace, Table: edgefake.Table,
		Prefix: edgefake.TableOf().Location(objectname.Current) + "/",
	}
}

func (h *harness) vend(s vend.Scope) vend.Credentials {
	h.t.Helper()
	c, err := h.vendor.Vend(s, h.now())
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// answer is a response whose body was read.
type answer struct {
	*http.Response
	body []byte
	err  error // of reading the body
}

type errorXML struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Resource  string
	RequestId string
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var e errorXML
	if err := xml.Unmarshal(a.body, &e); err != nil {
		t.Fatalf("%d %q: %v", a.StatusCode, a.body, err)
	}
	if e.RequestId != a.Header.Get("X-Amz-Request-Id") || e.RequestId == "" {
		t.Errorf("request id %q in the body, %q in the header", e.RequestId, a.Header.Get("X-Amz-Request-Id"))
	}
	return e.Code
}

func (h *harness) request(method, path string, headers ...string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (h *harness) sign(r *http.Request, c vend.Credentials) {
	h.t.Helper()
	const payload = "UNSIGNED-PAYLOAD"
	r.Header.Set("X-Amz-Content-Sha256", payload)
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	err := signer.SignHTTP(context.Background(), aws.Credentials{
		AccessKeyID: c.AccessKey, SecretAccessKey: c.Secret, SessionToken: c.SessionToken,
	}, r, payload, "s3", "us-east-1", h.now())
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) send(r *http.Request) answer {
	h.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); cerr != nil {
		h.t.Error(cerr)
	}
	return answer{resp, body, err}
}

// do sends a signed request with the credentials of the usual scope.
func (h *harness) do(method, path string, headers ...string) answer {
	h.t.Helper()
	r := h.request(method, path, headers...)
	h.sign(r, h.vend(h.scope()))
	return h.send(r)
}

// get is do for an object's key.
func (h *harness) get(key string, headers ...string) answer {
	h.t.Helper()
	return h.do("GET", "/"+edgefake.Bucket+"/"+key, headers...)
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	return out
}
