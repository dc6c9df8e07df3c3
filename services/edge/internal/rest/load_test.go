package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

const ordersPath = "/v1/v2/namespaces/kafka/tables/orders"

type loadBody struct {
	Location    string            `json:"metadata-location"`
	Metadata    json.RawMessage   `json:"metadata"`
	Config      map[string]string `json:"config"`
	Credentials []struct {
		Prefix string            `json:"prefix"`
		Config map[string]string `json:"config"`
	} `json:"storage-credentials"`
}

func TestLoadTable(t *testing.T) {
	h := newHarness(t, authn.Open())
	for _, w := range []string{"v2", "v3"} {
		a := h.get(strings.Replace(ordersPath, "v2", w, 1))
		var l loadBody
		a.decode(t, &l)
		if l.Location != "s3://frazil/"+h.fake.MetadataKey(w) || !strings.Contains(string(l.Metadata), "snap-7-aa.avro") {
			t.Errorf("%s: %s", w, a.body)
		}
		if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("ETag") == "" {
			t.Errorf("%s: %v", w, a.Header)
		}
		if len(l.Credentials) != 1 || l.Credentials[0].Prefix != edgefake.Location() || !reflect.DeepEqual(l.Credentials[0].Config, l.Config) {
			t.Errorf("%s: credentials %+v", w, l.Credentials)
		}
		for k, v := range map[string]string{
			"s3.endpoint": "http://127.0.0.1:8182/", "s3.path-style-access": "true", "s3.region": "us-east-1", "client.region": "us-east-1", "s3.request-timeout": "300",
			"client.refresh-credentials-endpoint": "v1/" + w + "/namespaces/kafka/tables/orders/credentials",
			"s3.session-token-expires-at-ms":      strconv.FormatInt(h.now().Add(time.Hour).UnixMilli(), 10),
		} {
			if l.Config[k] != v {
				t.Errorf("%s: %s = %q, want %q", w, k, l.Config[k], v)
			}
		}
		h.checkCredentials(l.Config, authn.Anonymous, w)
	}
	if strings.Count(h.log(), "credentials vended") != 2 || h.get(ordersPath).StatusCode != 200 || strings.Count(h.log(), "credentials vended") != 2 {
		t.Errorf("audit: %s", h.log())
	}
}

func (h *harness) checkCredentials(config map[string]string, principal, warehouse string) {
	h.t.Helper()
	secret, claims, err := h.vendor.Verify(config["s3.access-key-id"], config["s3.session-token"], h.now())
	want := vend.Scope{Principal: principal, Warehouse: warehouse, Namespace: "kafka", Table: "orders", Prefix: edgefake.TableOf().Dir() + "/current/"}
	if err != nil || secret != config["s3.secret-access-key"] || claims.Scope != want {
		h.t.Errorf("credentials: %v %+v", err, claims)
	}
	if strings.Contains(h.log(), secret) || strings.Contains(h.log(), config["s3.session-token"]) {
		h.t.Error("the log tells credentials")
	}
}

func TestLoadCredentials(t *testing.T) {
	h := newHarness(t, authn.Open())
	for range 2 { // the second time the catalog is told what is known
		a := h.get(ordersPath + "/credentials?planId=x&referenced-by=a,b")
		var l struct {
			Credentials []struct {
				Prefix string            `json:"prefix"`
				Config map[string]string `json:"config"`
			} `json:"storage-credentials"`
		}
		a.decode(t, &l)
		if len(l.Credentials) != 1 || l.Credentials[0].Prefix != edgefake.Location() || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s %v", a.body, a.Header)
		}
		h.checkCredentials(l.Credentials[0].Config, authn.Anonymous, "v2")
		h.get(ordersPath)
	}
	if a := h.get("/v1/v2/namespaces/kafka/tables/none/credentials"); a.StatusCode != 404 || a.kind(t) != "NoSuchTableException" {
		t.Errorf("%d", a.StatusCode)
	}
}

// The tag changes with everything that the answer depends on, and with nothing else.
func TestETagCovers(t *testing.T) {
	h := newHarness(t, withTokens(t))
	load := func(path string, headers ...string) string {
		a := h.get(path, append([]string{"Authorization", "Bearer " + aliceToken}, headers...)...)
		if a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		return a.Header.Get("ETag")
	}
	base := load(ordersPath)
	h.advance(29 * time.Minute)
	for _, path := range []string{ordersPath, ordersPath + "?snapshots=all", ordersPath + "?referenced-by=x"} {
		if load(path) != base {
			t.Errorf("%s: the tag changed by itself", path)
		}
	}
	seen := map[string]string{base: "base"}
	note := func(what, tag string) {
		if other, ok := seen[tag]; ok {
			t.Errorf("%s has the tag of %s", what, other)
		}
		seen[tag] = what
	}
	note("refs", load(ordersPath+"?snapshots=refs"))
	note("dialect", load(strings.Replace(ordersPath, "v2", "v3", 1)))
	note("delegation", load(ordersPath, "X-Iceberg-Access-Delegation", "vended-credentials"))
	note("principal", h.get(ordersPath, "Authorization", "Bearer "+bobToken).Header.Get("ETag"))
	h.endpoint.Store("http://s3.example/")
	note("endpoint", load(ordersPath))
	h.endpoint.Store("http://127.0.0.1:8182/")
	h.advance(time.Minute)
	note("credential epoch", load(ordersPath))
	h.fake.Advance()
	note("version", load(ordersPath))
}

func TestNotModified(t *testing.T) {
	h := newHarness(t, authn.Open())
	tag := h.get(ordersPath).Header.Get("ETag")
	for _, c := range []struct {
		header string
		want   int
	}{{tag, 304}, {"W/" + tag, 304}, {`"x", ` + tag, 304}, {"*", 304}, {`"x"`, 200}, {strings.Trim(tag, `"`), 200}} {
		a := h.get(ordersPath, "If-None-Match", c.header)
		if a.StatusCode != c.want || c.want == 304 && (len(a.body) != 0 || a.Header.Get("ETag") != tag) {
			t.Errorf("%s: %d", c.header, a.StatusCode)
		}
		if c.want == 200 {
			var l loadBody
			if a.decode(t, &l); len(l.Metadata) < 10 {
				t.Errorf("%s: no metadata: %s", c.header, a.body)
			}
		}
	}
	if a := h.get(ordersPath + "?snapshots=refs"); a.StatusCode != 200 {
		t.Errorf("refs: %d", a.StatusCode)
	}
	if a := h.get(ordersPath+"?snapshots=refs", "If-None-Match", tag); a.StatusCode != 200 {
		t.Errorf("refs with the tag of all: %d", a.StatusCode)
	}
	// A copy is not current any more once its credentials are in the second half of their life.
	h.advance(30 * time.Minute)
	a := h.get(ordersPath, "If-None-Match", tag)
	if a.StatusCode != 200 {
		t.Fatalf("old credentials: %d", a.StatusCode)
	}
	tag = a.Header.Get("ETag")
	h.fake.Advance()
	if a := h.get(ordersPath, "If-None-Match", tag); a.StatusCode != 200 {
		t.Errorf("new version: %d", a.StatusCode)
	}
	// An error is never hidden behind a tag that matches.
	h.fake.Fail = func(context.Context, string, string) error { return fmt.Errorf("away: %w", fault.ErrUnavailable) }
	if a := h.get(ordersPath, "If-None-Match", "*"); a.StatusCode != 503 {
		t.Errorf("catalog away: %d", a.StatusCode)
	}
}

// Java looks the header up in a case-sensitive map (Iceberg 1.11); net/http would write Etag.
func TestETagSpelling(t *testing.T) {
	h := newHarness(t, authn.Open())
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", ordersPath); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(conn); s.Scan() && s.Text() != ""; {
		if strings.HasPrefix(s.Text(), "ETag: ") {
			return
		}
	}
	t.Error("no header spelled ETag")
}

func TestSnapshotsParameter(t *testing.T) {
	h := newHarness(t, authn.Open())
	if a := h.get(ordersPath + "?snapshots=some"); a.StatusCode != 400 || a.kind(t) != "BadRequestException" {
		t.Errorf("%d", a.StatusCode)
	}
}

func TestTokens(t *testing.T) {
	h := newHarness(t, withTokens(t))
	for _, path := range []string{"/v1/config", "/v1/v2/namespaces", "/v1/v2/namespaces/kafka/tables", ordersPath, ordersPath + "/credentials", "/v1/v2/nothing"} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer wrong-token-012345"}, {"Authorization", "Basic " + bobToken}} {
			a := h.get(path, headers...)
			if a.StatusCode != 401 || a.kind(t) != "NotAuthorizedException" || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %v: %d", path, headers, a.StatusCode)
			}
		}
	}
	a := h.get(ordersPath, "Authorization", "Bearer "+aliceToken)
	var l loadBody
	a.decode(t, &l)
	h.checkCredentials(l.Config, "alice", "v2")
	if strings.Contains(h.log(), aliceToken) {
		t.Error("the log tells a token")
	}
}

// What a principal may not see looks in every way like what is not there.
func TestHiddenTables(t *testing.T) {
	h := newHarness(t, withTokens(t))
	h.fake.SetTables("a_secret", "orders", "orders__changes", "payments", "z_secret")
	alice := []string{"Authorization", "Bearer " + aliceToken}
	var l tableList
	h.get("/v1/v2/namespaces/kafka/tables?pageToken=&pageSize=1", alice...).decode(t, &l)
	next := *l.Next
	h.get("/v1/v2/namespaces/kafka/tables?pageToken="+next+"&pageSize=1", alice...).decode(t, &l)
	if l.Next != nil || len(l.Identifiers) != 1 || l.Identifiers[0].Name != "orders__changes" {
		t.Errorf("listing: %+v", l)
	}
	for _, path := range []string{"", "/credentials", "/metrics"} {
		method := "GET"
		if path == "/metrics" {
			method = "POST"
		}
		hidden := h.do(method, "/v1/v2/namespaces/kafka/tables/payments"+path, "{}", alice...)
		absent := h.do(method, "/v1/v2/namespaces/kafka/tables/pavments"+path, "{}", alice...)
		if hidden.StatusCode != 404 || strings.ReplaceAll(string(hidden.body), "payments", "pavments") != string(absent.body) {
			t.Errorf("%s: hidden %d %s, absent %s", path, hidden.StatusCode, hidden.body, absent.body)
		}
	}
	if a := h.do("HEAD", "/v1/v2/namespaces/kafka/tables/payments", "", alice...); a.StatusCode != 404 {
		t.Errorf("HEAD: %d", a.StatusCode)
	}
	if n := h.fake.Calls("LoadTable") + h.fake.Calls("TableExists"); n != 0 {
		t.Errorf("%d calls about hidden tables", n)
	}
	if a := h.get("/v1/v2/namespaces/kafka/tables/payments", "Authorization", "Bearer "+bobToken); a.StatusCode != 200 {
		t.Errorf("bob: %d", a.StatusCode)
	}
}

// Without authentication a page in a browser must not reach the catalog by a name of its own.
func TestHostNames(t *testing.T) {
	h := newHarness(t, authn.Open())
	for host, want := range map[string]int{
		"127.0.0.1:8181": 200, "localhost": 200, "[::1]:8181": 200, "frazil.localhost:8181": 200, "10.0.0.7": 200,
		"evil.example": 403, "evil.example:8181": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403,
	} {
		if a := h.get("/v1/config", "Host", host); a.StatusCode != want {
			t.Errorf("%s: %d", host, a.StatusCode)
		}
	}
	if a := newHarness(t, withTokens(t)).get("/v1/config", "Host", "any.example", "Authorization", "Bearer "+bobToken); a.StatusCode != http.StatusOK {
		t.Errorf("with a token: %d", a.StatusCode)
	}
}
