package rest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
	"github.com/frazil-io/frazil/services/edge/internal/rest"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

const (
	aliceToken = "alice-token-0123456"
	bobToken   = "bob-token-012345678"
)

type harness struct {
	t        *testing.T
	fake     *edgefake.Backend
	url      string
	vendor   *vend.Vendor
	clock    atomic.Int64
	endpoint atomic.Value
	log      func() string
}

func newHarness(t *testing.T, auth *authn.Authenticator) *harness {
	t.Helper()
	h := &harness{t: t, fake: edgefake.New(t)}
	h.clock.Store(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).UnixNano())
	h.endpoint.Store("http://127.0.0.1:8182/")
	var err error
	if h.vendor, err = vend.New([]byte("0123456789abcdef0123456789abcdef"), nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	log, text := edgefake.Log()
	h.log = text.String
	handler := rest.New(rest.Config{
		DefaultWarehouse: "v2", Bucket: edgefake.Bucket, Region: "us-east-1", RequestTimeout: 300 * time.Second, ConnectTimeout: 10 * time.Second,
		BodyTimeout: 200 * time.Millisecond,
		Endpoint:    func(*http.Request) string { return h.endpoint.Load().(string) },
	}, rest.Deps{Catalog: h.fake.Catalog, Authn: auth, Vendor: h.vendor, Now: h.now, Log: log})
	o, err := observe.New(noop.Meter{}, log, h.now)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(o.Handler("rest", handler.Serve))
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

func withTokens(t *testing.T) *authn.Authenticator {
	t.Helper()
	a, err := authn.WithTokens([]authn.Token{
		{Secret: aliceToken, Principal: "alice", Tables: []string{"orders*"}}, {Secret: bobToken, Principal: "bob", Tables: []string{"*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (h *harness) now() time.Time { return time.Unix(0, h.clock.Load()).UTC() }

func (h *harness) advance(d time.Duration) { h.clock.Add(int64(d)) }

type answer struct {
	*http.Response
	body []byte
}

func (h *harness) do(method, path, body string, headers ...string) answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	raw, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		h.t.Fatal(err, cerr)
	}
	return answer{resp, raw}
}

func (h *harness) get(path string, headers ...string) answer {
	h.t.Helper()
	return h.do("GET", path, "", headers...)
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if ct := a.Header.Get("Content-Type"); ct != "application/json" {
		t.Fatalf("%d content type %q: %s", a.StatusCode, ct, a.body)
	}
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%d %s: %v", a.StatusCode, a.body, err)
	}
}

// kind is the type of an error answer, whose shape it checks.
func (a answer) kind(t *testing.T) string {
	t.Helper()
	var e struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    int    `json:"code"`
		} `json:"error"`
	}
	a.decode(t, &e)
	if e.Error.Code != a.StatusCode || e.Error.Message == "" {
		t.Errorf("%d: %s", a.StatusCode, a.body)
	}
	return e.Error.Type
}

type configBody struct {
	Defaults  map[string]string `json:"defaults"`
	Overrides map[string]string `json:"overrides"`
	Endpoints []string          `json:"endpoints"`
}

func TestConfig(t *testing.T) {
	h := newHarness(t, authn.Open())
	for query, want := range map[string]string{"": "v2", "?warehouse=": "v2", "?warehouse=v2": "v2", "?warehouse=v3": "v3", "?warehouse=v3&x=y": "v3"} {
		var c configBody
		h.get("/v1/config"+query).decode(t, &c)
		if c.Overrides["prefix"] != want {
			t.Errorf("%q: %+v", query, c.Overrides)
		}
		for k, v := range map[string]string{
			"s3.endpoint": "http://127.0.0.1:8182/", "s3.path-style-access": "true", "s3.region": "us-east-1", "client.region": "us-east-1",
			"s3.request-timeout": "300", "s3.connect-timeout": "10", "header.X-Iceberg-Access-Delegation": "vended-credentials", "rest-metrics-reporting-enabled": "true",
		} {
			if c.Defaults[k] != v {
				t.Errorf("default %s = %q, want %q", k, c.Defaults[k], v)
			}
		}
	}
	for _, q := range []string{"?warehouse=v1", "?warehouse=V2", "?warehouse=v2%2F"} {
		if a := h.get("/v1/config" + q); a.StatusCode != 404 || a.kind(t) != "NoSuchWarehouseException" {
			t.Errorf("%s: %d %s", q, a.StatusCode, a.body)
		}
	}
	if a := h.get("/v1/config?warehouse=%zz"); a.StatusCode != 400 || a.kind(t) != "BadRequestException" {
		t.Errorf("undecodable query: %d", a.StatusCode)
	}
}

// Every advertised endpoint is one that answers something other than "no such operation".
func TestEndpointsAreHonest(t *testing.T) {
	h := newHarness(t, authn.Open())
	var c configBody
	h.get("/v1/config").decode(t, &c)
	seen := map[string]bool{}
	for _, e := range c.Endpoints {
		method, path, ok := strings.Cut(e, " ")
		if !ok || strings.Contains(path, " ") || seen[e] {
			t.Errorf("endpoint %q", e)
		}
		seen[e] = true
		path = strings.NewReplacer("{prefix}", "v2", "{namespace}", "kafka", "{table}", "orders", "{view}", "v").Replace(path)
		a := h.do(method, path, "{}")
		want := 200
		switch {
		case strings.HasSuffix(path, "/views/v"):
			want = 404
		case method == "HEAD", strings.HasSuffix(path, "/metrics"):
			want = 204
		}
		if a.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", e, a.StatusCode, want, a.body)
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d endpoints", len(seen))
	}
}

// Names arrive in every spelling that clients use for them.
func TestPaths(t *testing.T) {
	h := newHarness(t, authn.Open())
	h.fake.SetTables("orders", "my_table", "weird.name", "täble", "a b", "a%b")
	const ns = "/v1/v2/namespaces/kafka/tables/"
	for path, want := range map[string]string{
		ns + "orders": "", ns + "my_table": "", ns + "my%5Ftable": "", ns + "my%5ftable": "", ns + "%6Frders": "",
		ns + "weird.name": "", ns + "weird%2Ename": "", ns + "t%C3%A4ble": "", ns + "a%20b": "", ns + "a%25b": "",
		"/v1/namespaces/kafka/tables/orders": "", "/v1/%76%32/namespaces/kafka/tables/orders": "", "/v1/v3/namespaces/%6bafka/tables/orders": "",
		"//v1/v2/namespaces/kafka/tables/orders": "", "/v1/v2/%6Eamespaces/kafka/tables/orders": "",

		ns + "ORDERS": "NoSuchTableException", ns + "a+b": "NoSuchTableException", ns + "orders%00": "NoSuchTableException", ns + "a%2Fb": "NoSuchTableException",
		"/v1/v2/namespaces/kafka%1Fsub/tables/orders": "NoSuchNamespaceException", "/v1/v2/namespaces/kafka%1fsub/tables/orders": "NoSuchNamespaceException",
		"/v1/v2/namespaces/kafka.sub/tables/orders": "NoSuchNamespaceException", "/v1/v2/namespaces/kafka%2Fx/tables/orders": "NoSuchNamespaceException",
		"/v1/v2/namespaces/%1F/tables/orders": "NoSuchNamespaceException", "/v1/v2/namespaces/Kafka/tables/orders": "NoSuchNamespaceException",
		"/v1/v9/namespaces/kafka/tables/orders": "NoSuchWarehouseException", "/v1/v2%2Fx/namespaces/kafka/tables/orders": "NoSuchWarehouseException",

		ns + "a/b": "NotFoundException", ns + "orders/": "NotFoundException", ns + "orders/nothing": "NotFoundException", ns + "orders/../orders": "NotFoundException",
		ns + "/orders": "NotFoundException", "/v1": "NotFoundException", "/v1/": "NotFoundException", "/": "NotFoundException", "/v2/config": "NotFoundException", "/favicon.ico": "NotFoundException",
		"/v1/v2": "NotFoundException", "/v1/v2/": "NotFoundException", "/v1/v2/namespaces//tables/orders": "NotFoundException", "/v1/v2/catalogs": "NotFoundException", "/v1/namespaces/": "NotFoundException",
	} {
		a := h.get(path)
		if want == "" && a.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		if want != "" {
			if got := a.kind(t); got != want || a.StatusCode != 404 {
				t.Errorf("%s: %d %s, want %s", path, a.StatusCode, got, want)
			}
		}
	}
}

func TestNamesThatAreNoText(t *testing.T) {
	h := newHarness(t, authn.Open())
	for _, path := range []string{"/v1/v2/namespaces/kafka/tables/%FF", "/v1/v2/namespaces/%C3%28/tables/orders", "/v1/v2/namespaces/%FF"} {
		if a := h.get(path); a.StatusCode != 400 || a.kind(t) != "BadRequestException" {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := newHarness(t, authn.Open())
	const ns, table, view = "/v1/v2/namespaces/kafka", "/v1/v2/namespaces/kafka/tables/orders", "/v1/v2/namespaces/kafka/views/v"
	for request, want := range map[string]string{
		"POST /v1/v2/namespaces": "406 UnsupportedOperationException", "DELETE " + ns: "403 ForbiddenException", "POST " + ns + "/properties": "406 UnsupportedOperationException",
		"POST " + ns + "/tables": "403 ForbiddenException", "POST " + ns + "/register": "403 ForbiddenException",
		"DELETE " + table: "403 ForbiddenException", "DELETE " + table + "?purgeRequested=true": "403 ForbiddenException", "POST " + table + "/unregister": "403 ForbiddenException",
		"POST /v1/v2/tables/rename": "406 UnsupportedOperationException", "POST /v1/v2/transactions/commit": "403 ForbiddenException",
		"POST " + table + "/sign": "501 UnsupportedOperationException", "POST " + table + "/plan": "406 UnsupportedOperationException",
		"GET " + table + "/plan/1": "404 NoSuchPlanIdException", "DELETE " + table + "/plan/1": "404 NoSuchPlanIdException", "POST " + table + "/tasks": "404 NoSuchPlanTaskException",
		"GET " + ns + "/functions": "501 UnsupportedOperationException", "GET " + ns + "/functions/f": "404 NoSuchFunctionException",
		"GET " + view: "404 NoSuchViewException", "POST " + ns + "/views": "403 ForbiddenException", "POST " + ns + "/register-view": "403 ForbiddenException",
		"POST " + view: "403 ForbiddenException", "DELETE " + view: "403 ForbiddenException", "POST /v1/v2/views/rename": "406 UnsupportedOperationException",
		"PATCH " + table: "400 BadRequestException", "PUT " + ns: "400 BadRequestException", "POST /v1/config": "400 BadRequestException", "DELETE /v1/v2/namespaces": "400 BadRequestException",
		"POST /v1/anything": "404 NotFoundException",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := h.do(method, path, "{}")
		if got := fmt.Sprint(a.StatusCode, " ", a.kind(t)); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
	}
	a := h.do("POST", "/v1/oauth/tokens", "grant_type=client_credentials")
	var oauth map[string]string
	a.decode(t, &oauth)
	if a.StatusCode != 400 || oauth["error"] != "unsupported_grant_type" {
		t.Errorf("token: %d %s", a.StatusCode, a.body)
	}
}

func TestHead(t *testing.T) {
	h := newHarness(t, authn.Open())
	for path, want := range map[string]int{
		"/v1/v2/namespaces/kafka": 204, "/v1/v2/namespaces/none": 404, "/v1/v2/namespaces/kafka/tables/orders": 204, "/v1/v2/namespaces/kafka/tables/none": 404,
		"/v1/v2/namespaces/none/tables/orders": 404, "/v1/v2/namespaces/kafka/views/v": 404, "/v1/nowhere": 404, "/v1/v2/namespaces": 400,
	} {
		if a := h.do("HEAD", path, ""); a.StatusCode != want || len(a.body) != 0 {
			t.Errorf("%s: %d %q, want %d", path, a.StatusCode, a.body, want)
		}
	}
}

type namespaceList struct {
	Namespaces [][]string `json:"namespaces"`
	Next       *string    `json:"next-page-token"`
}

type tableList struct {
	Identifiers []struct {
		Namespace []string `json:"namespace"`
		Name      string   `json:"name"`
	} `json:"identifiers"`
	Next *string `json:"next-page-token"`
}

func TestNamespaces(t *testing.T) {
	h := newHarness(t, authn.Open())
	var l namespaceList
	for _, q := range []string{"", "?parent=", "?pageToken=", "?pageToken=&pageSize=1"} {
		h.get("/v1/v2/namespaces"+q).decode(t, &l)
		if !reflect.DeepEqual(l.Namespaces, [][]string{{"kafka"}}) || l.Next != nil {
			t.Errorf("%q: %+v", q, l)
		}
	}
	h.get("/v1/v2/namespaces?parent=kafka").decode(t, &l)
	if len(l.Namespaces) != 0 {
		t.Errorf("below kafka: %+v", l)
	}
	if a := h.get("/v1/v2/namespaces?parent=none"); a.StatusCode != 404 || a.kind(t) != "NoSuchNamespaceException" {
		t.Errorf("below nothing: %d", a.StatusCode)
	}
	var n struct {
		Namespace  []string          `json:"namespace"`
		Properties map[string]string `json:"properties"`
	}
	h.get("/v1/v2/namespaces/kafka").decode(t, &n)
	if !reflect.DeepEqual(n.Namespace, []string{"kafka"}) || n.Properties == nil {
		t.Errorf("%+v", n)
	}
}

// Pages of every size, put together, are the list; without pageToken it is one page.
func TestPages(t *testing.T) {
	h := newHarness(t, authn.Open())
	var names []string
	for i := range 17 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	h.fake.SetTables(names...)
	list := func(query string) (l tableList) {
		h.get("/v1/v2/namespaces/kafka/tables"+query).decode(t, &l)
		return l
	}
	for _, q := range []string{"", "?pageSize=3", "?pageToken="} {
		if l := list(q); len(l.Identifiers) != 17 || l.Next != nil {
			t.Errorf("%q: %d names", q, len(l.Identifiers))
		}
	}
	for size := 1; size <= 18; size++ {
		var got []string
		token := ""
		for pages := 0; ; pages++ {
			l := list(fmt.Sprintf("?pageSize=%d&pageToken=%s", size, token))
			if len(l.Identifiers) > size || pages > 20 {
				t.Fatalf("size %d: page of %d", size, len(l.Identifiers))
			}
			for _, id := range l.Identifiers {
				got = append(got, id.Name)
			}
			if l.Next == nil {
				break
			}
			token = *l.Next
		}
		if !reflect.DeepEqual(got, names) {
			t.Errorf("size %d: %v", size, got)
		}
	}
	// A name that went away between two pages takes nothing along.
	token := *list("?pageSize=5&pageToken=").Next
	h.fake.SetTables(append(names[:4:4], names[5:]...)...)
	if l := list("?pageSize=50&pageToken=" + token); len(l.Identifiers) != 12 || l.Identifiers[0].Name != "t05" {
		t.Errorf("after a change: %+v", l)
	}
	for _, q := range []string{"?pageToken=x", "?pageToken=dDA0", "?pageSize=0&pageToken=", "?pageSize=-1", "?pageSize=x"} {
		if a := h.get("/v1/v2/namespaces/kafka/tables" + q); a.StatusCode != 400 || a.kind(t) != "BadRequestException" {
			t.Errorf("%s: %d", q, a.StatusCode)
		}
	}
	if a := h.get("/v1/v2/namespaces/none/tables"); a.StatusCode != 404 || a.kind(t) != "NoSuchNamespaceException" {
		t.Errorf("no namespace: %d", a.StatusCode)
	}
}

func TestViews(t *testing.T) {
	h := newHarness(t, authn.Open())
	var l tableList
	h.get("/v1/v2/namespaces/kafka/views").decode(t, &l)
	if l.Identifiers == nil || len(l.Identifiers) != 0 {
		t.Errorf("%+v", l)
	}
	if a := h.get("/v1/v2/namespaces/none/views"); a.StatusCode != 404 || a.kind(t) != "NoSuchNamespaceException" {
		t.Errorf("%d", a.StatusCode)
	}
}

// What the catalog answers, as the specification says it.
func TestFaults(t *testing.T) {
	h := newHarness(t, authn.Open())
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{fault.ErrNotFound, 404, "NoSuchTableException"}, {fault.ErrInvalid, 400, "BadRequestException"}, {fault.ErrUnavailable, 503, "SlowDownException"},
		{fault.ErrRetired, 503, "SlowDownException"}, {fault.ErrConflict, 503, "SlowDownException"}, {fault.ErrDenied, 403, "ForbiddenException"},
		{fault.ErrUnsupported, 501, "UnsupportedOperationException"}, {fault.ErrCorrupt, 500, "InternalServerError"},
		{fault.ErrUnauthenticated, 500, "InternalServerError"},
	} {
		h.fake.Fail = func(_ context.Context, m, _ string) error {
			if m == "ListNamespaces" {
				return nil
			}
			return fmt.Errorf("the reason: %w", c.err)
		}
		const table = "/v1/v2/namespaces/kafka/tables/orders"
		for _, request := range []string{"GET " + table, "GET " + table + "/credentials", "POST " + table + "/metrics"} {
			method, path, _ := strings.Cut(request, " ")
			a := h.do(method, path, "{}")
			if a.StatusCode != c.status || a.kind(t) != c.kind {
				t.Errorf("%s, %v: %d %s", request, c.err, a.StatusCode, a.body)
			}
			if (a.Header.Get("Retry-After") != "") != (c.status == 503) {
				t.Errorf("%v: %v", c.err, a.Header)
			}
			if told := c.status != 404 && c.err != fault.ErrUnauthenticated; told && !strings.Contains(string(a.body), "the reason") {
				t.Errorf("%v: %s", c.err, a.body)
			}
		}
		if a := h.do("HEAD", table, ""); a.StatusCode != c.status || len(a.body) != 0 {
			t.Errorf("HEAD, %v: %d", c.err, a.StatusCode)
		}
	}
}

func TestMetrics(t *testing.T) {
	h := newHarness(t, authn.Open())
	const path = "/v1/v2/namespaces/kafka/tables/orders/metrics"
	if a := h.do("POST", path, `{"report-type":"scan-report","snapshot-id":7,"table-name":"orders"}`); a.StatusCode != 204 || len(a.body) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for _, body := range []string{"", "[", `"x"`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`} {
		if a := h.do("POST", path, body); a.StatusCode != 400 || a.kind(t) != "BadRequestException" {
			t.Errorf("%.20q: %d", body, a.StatusCode)
		}
	}
	if a := h.do("POST", strings.Replace(path, "orders", "none", 1), "{}"); a.StatusCode != 404 || a.kind(t) != "NoSuchTableException" {
		t.Errorf("%d", a.StatusCode)
	}
}

// A client that begins a body and never ends it does not hold the connection.
func TestASlowBodyEnds(t *testing.T) {
	h := newHarness(t, authn.Open())
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/v2/namespaces/kafka/tables/orders/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered %s, want 408", res.Status)
	}
}
