package s3_test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
	"github.com/frazil-io/frazil/services/edge/internal/s3"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

func edgeRange() kafkapos.Range { return kafkapos.Range{Start: 0, End: 1000} }

func TestEveryWriteIsRefused(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	for _, c := range []string{
		"PUT /frazil", "DELETE /frazil", "POST /frazil?delete", "PUT /frazil?versioning", "PUT /frazil?acl", "POST /frazil", "PUT /other",
		"PUT /frazil/" + key, "DELETE /frazil/" + key, "POST /frazil/" + key + "?uploads", "PUT /frazil/" + key + "?partNumber=1&uploadId=x",
		"POST /frazil/" + key + "?uploadId=x", "DELETE /frazil/" + key + "?uploadId=x", "PUT /frazil/" + key + "?tagging", "POST /frazil/" + key + "?select&select-type=2",
		"PATCH /frazil/" + key, "PUT /",
	} {
		method, path, _ := strings.Cut(c, " ")
		if a := h.do(method, path); a.StatusCode != 403 || a.code(t) != "AccessDenied" {
			t.Errorf("%s: %d %s", c, a.StatusCode, a.body)
		}
		// An upload's chunked signature is refused for what it wants to do.
		r := h.request(method, path, "X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
		h.sign(r, h.vend(h.scope()))
		r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
		if a := h.send(r); a.StatusCode != 403 || a.code(t) != "AccessDenied" {
			t.Errorf("%s streaming: %d %s", c, a.StatusCode, a.body)
		}
	}
	if a := h.get(key); a.StatusCode != 200 {
		t.Errorf("the object is gone: %d", a.StatusCode)
	}
}

func TestCredentials(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	good := h.vend(h.scope())
	for name, c := range map[string]struct {
		change func(*vend.Credentials)
		later  time.Duration
		status int
		code   string
	}{
		"good":                {func(*vend.Credentials) {}, 0, 200, ""},
		"secret":              {func(c *vend.Credentials) { c.Secret += "x" }, 0, 403, "SignatureDoesNotMatch"},
		"access key":          {func(c *vend.Credentials) { c.AccessKey = "FZ" + strings.Repeat("A", 24) }, 0, 403, "InvalidAccessKeyId"},
		"no token":            {func(c *vend.Credentials) { c.SessionToken = "" }, 0, 403, "InvalidAccessKeyId"},
		"token tampered":      {func(c *vend.Credentials) { c.SessionToken = "B" + c.SessionToken[1:] }, 0, 403, "InvalidToken"},
		"token cut":           {func(c *vend.Credentials) { c.SessionToken = c.SessionToken[:50] }, 0, 403, "InvalidToken"},
		"over":                {func(*vend.Credentials) {}, time.Hour, 400, "ExpiredToken"},
		"not over":            {func(*vend.Credentials) {}, 59 * time.Minute, 200, ""},
		"someone else's keys": {func(c *vend.Credentials) { c.AccessKey, c.Secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI" }, 0, 403, "InvalidAccessKeyId"},
	} {
		creds := good
		c.change(&creds)
		h.advance(c.later)
		r := h.request("GET", "/frazil/"+key)
		h.sign(r, creds)
		a := h.send(r)
		if a.StatusCode != c.status || c.code != "" && a.code(t) != c.code {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
		h.advance(-c.later)
	}
	if a := h.send(h.request("GET", "/frazil/"+key)); a.StatusCode != 403 || a.code(t) != "AccessDenied" {
		t.Errorf("unsigned: %d", a.StatusCode)
	}
	if strings.Contains(h.log(), good.SessionToken) || strings.Contains(h.log(), good.Secret) {
		t.Error("the log tells credentials")
	}
}

// Credentials of one table and view open nothing else. Those of both dialects open the same: DuckDB (1.5.5) uses the
// last ones it got for a location.
func TestScope(t *testing.T) {
	h := newHarness(t)
	d := h.fake.DataFile(0, pattern(100))
	v2, v3 := h.fake.DeleteFile(d, objectname.V2, pattern(10)), h.fake.DeleteFile(d, objectname.V3, pattern(10))
	keys := map[string]string{
		"data": d.Key(), "deletes v2": v2, "deletes v3": v3,
		"metadata v2": h.fake.MetadataKey(objectname.V2), "metadata v3": h.fake.MetadataKey(objectname.V3),
	}
	for name, c := range map[string]struct {
		change func(*vend.Scope)
		want   string // what may be read
	}{
		"v2":            {func(*vend.Scope) {}, "data, deletes v2, deletes v3, metadata v2, metadata v3"},
		"v3":            {func(s *vend.Scope) { s.Warehouse = objectname.V3 }, "data, deletes v2, deletes v3, metadata v2, metadata v3"},
		"another view":  {func(s *vend.Scope) { s.Prefix = edgefake.TableOf().Location(objectname.Changes) + "/" }, ""},
		"another table": {func(s *vend.Scope) { s.Table, s.Prefix = "order", "order-"+edgefake.Epoch+"/current/" }, ""},
		"another epoch": {func(s *vend.Scope) { s.Prefix = "orders-ponmlkjihgfedcba/current/" }, ""},
		"nothing":       {func(s *vend.Scope) { s.Prefix = "" }, ""},
	} {
		scope := h.scope()
		c.change(&scope)
		for what, key := range keys {
			r := h.request("GET", "/frazil/"+key)
			h.sign(r, h.vend(scope))
			a := h.send(r)
			may := strings.Contains(c.want, what)
			if may && a.StatusCode != 200 || !may && (a.StatusCode != 403 || a.code(t) != "AccessDenied") {
				t.Errorf("%s reads %s: %d %s", name, what, a.StatusCode, a.body)
			}
		}
	}
}

// The right to a table ends with the configuration, not with the credentials.
func TestRightsAreCheckedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		tokens []authn.Token
		want   int
	}{
		"may":            {[]authn.Token{{Secret: "x", Principal: "alice", Tables: []string{"orders"}}}, 200},
		"may no longer":  {[]authn.Token{{Secret: "x", Principal: "alice", Tables: []string{"payments"}}}, 403},
		"is not known":   {[]authn.Token{{Secret: "x", Principal: "bob", Tables: []string{"*"}}}, 403},
		"other spelling": {[]authn.Token{{Secret: "x", Principal: "Alice", Tables: []string{"*"}}}, 403},
	} {
		h := newHarness(t, func(_ *s3.Config, d *s3.Deps) {
			a, err := authn.WithTokens(c.tokens)
			if err != nil {
				t.Fatal(err)
			}
			d.Authn = a
		})
		scope := h.scope()
		scope.Principal = "alice"
		r := h.request("GET", "/frazil/"+h.fake.ManifestListKey(objectname.V2))
		h.sign(r, h.vend(scope))
		if a := h.send(r); a.StatusCode != c.want {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}

func TestSubresources(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	for _, path := range []string{
		"/frazil?versioning", "/frazil?acl", "/frazil?policy", "/frazil?versions", "/frazil?uploads", "/frazil?tagging", "/frazil?object-lock",
		"/frazil/" + key + "?acl", "/frazil/" + key + "?attributes", "/frazil/" + key + "?tagging", "/frazil/" + key + "?versionId=1", "/frazil/" + key + "?partNumber=1", "/frazil/" + key + "?uploadId=x",
	} {
		if a := h.do("GET", path); a.StatusCode != 501 || a.code(t) != "NotImplemented" {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	if a := h.do("GET", "/frazil/"+key+"?x-id=GetObject&whatever"); a.StatusCode != 200 {
		t.Errorf("unknown parameters: %d", a.StatusCode)
	}
}

func TestBuckets(t *testing.T) {
	h := newHarness(t)
	if a := h.do("HEAD", "/frazil"); a.StatusCode != 200 || a.Header.Get("X-Amz-Bucket-Region") != "us-east-1" {
		t.Errorf("head: %d %v", a.StatusCode, a.Header)
	}
	if a := h.do("HEAD", "/frazil/"); a.StatusCode != 200 {
		t.Errorf("head with slash: %d", a.StatusCode)
	}
	for _, p := range []string{"/other", "/other/key", "/other?location"} {
		if a := h.do("GET", p); a.StatusCode != 404 || a.code(t) != "NoSuchBucket" {
			t.Errorf("%s: %d %s", p, a.StatusCode, a.body)
		}
	}
	if a := h.do("HEAD", "/other"); a.StatusCode != 404 {
		t.Errorf("head of nothing: %d", a.StatusCode)
	}
	if a := h.do("GET", "/frazil?location"); a.StatusCode != 200 || !strings.Contains(string(a.body), `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`) {
		t.Errorf("location: %d %s", a.StatusCode, a.body)
	}
	if a := h.do("GET", "/"); a.StatusCode != 200 || !strings.Contains(string(a.body), "<Bucket><Name>frazil</Name>") {
		t.Errorf("buckets: %d %s", a.StatusCode, a.body)
	}
	if a := h.do("GET", "//frazil/x"); a.StatusCode != 400 {
		t.Errorf("empty bucket name: %d %s", a.StatusCode, a.body)
	}
}

func TestVirtualHost(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	for host, want := range map[string]int{"frazil.s3.localhost": 200, "frazil.s3.localhost:8182": 200, "FRAZIL.S3.localhost": 200, "other.s3.localhost": 404, "frazil.elsewhere": 404, "s3.localhost": 404} {
		r := h.request("GET", "/"+key)
		r.Host = host
		h.sign(r, h.vend(h.scope()))
		if a := h.send(r); a.StatusCode != want {
			t.Errorf("%s: %d %s", host, a.StatusCode, a.body)
		}
	}
}

type listXML struct {
	Name, Prefix, Delimiter, Marker, NextMarker, NextContinuationToken, ContinuationToken, EncodingType string
	MaxKeys, KeyCount                                                                                   int
	IsTruncated                                                                                         bool
	Contents                                                                                            []struct {
		Key, ETag, LastModified string
		Size                    int64
		Owner                   *struct{ ID string }
	}
	CommonPrefixes []struct{ Prefix string }
}

func (h *harness) list(query string) listXML {
	h.t.Helper()
	a := h.do("GET", "/frazil?"+query)
	var l listXML
	if err := xml.Unmarshal(a.body, &l); err != nil || a.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %d %s %v", query, a.StatusCode, a.body, err)
	}
	return l
}

// A listing names what can be fetched, with the size and tag that a GET has.
func TestListingIsHonest(t *testing.T) {
	h := newHarness(t)
	for _, q := range []string{"list-type=2", ""} {
		l := h.list(q)
		want := []string{h.fake.MetadataKey(objectname.V2), h.fake.ManifestListKey(objectname.V2)}
		if len(l.Contents) != 2 || l.IsTruncated || l.Name != "frazil" || l.MaxKeys != 1000 {
			t.Fatalf("%q: %+v", q, l)
		}
		for i, c := range l.Contents {
			a := h.get(c.Key)
			if c.Key != want[i] || a.StatusCode != 200 || int64(len(a.body)) != c.Size || a.Header.Get("ETag") != c.ETag {
				t.Errorf("%q: %+v, GET %d, %d bytes, %s", q, c, a.StatusCode, len(a.body), a.Header.Get("ETag"))
			}
		}
	}
	// Other credentials, other objects.
	scope := h.scope()
	scope.Table, scope.Prefix = "payments", "payments-"+edgefake.Epoch+"/current/"
	r := h.request("GET", "/frazil?list-type=2")
	h.sign(r, h.vend(scope))
	if a := h.send(r); strings.Contains(string(a.body), "orders") {
		t.Errorf("another table's objects: %s", a.body)
	}
}

func TestListingRefusals(t *testing.T) {
	h := newHarness(t)
	for _, q := range []string{"list-type=1", "list-type=2&max-keys=x", "list-type=2&max-keys=-1", "list-type=2&continuation-token=", "list-type=2&continuation-token=%21", "list-type=2&encoding-type=hex", "max-keys=1e3"} {
		if a := h.do("GET", "/frazil?"+q); a.StatusCode != 400 || a.code(t) != "InvalidArgument" {
			t.Errorf("%s: %d %s", q, a.StatusCode, a.body)
		}
	}
}

func TestListingOptions(t *testing.T) {
	h := newHarness(t)
	l := h.list("list-type=2&max-keys=0")
	if len(l.Contents) != 0 || l.IsTruncated || l.MaxKeys != 0 {
		t.Errorf("max-keys 0: %+v", l)
	}
	l = h.list("list-type=2&delimiter=/")
	if len(l.Contents) != 0 || len(l.CommonPrefixes) != 1 || l.CommonPrefixes[0].Prefix != edgefake.TableOf().Dir()+"/" || l.KeyCount != 1 {
		t.Errorf("delimiter: %+v", l)
	}
	l = h.list("list-type=2&fetch-owner=true&encoding-type=url&prefix=" + edgefake.TableOf().Dir() + "%2F")
	if len(l.Contents) != 2 || l.Contents[0].Owner == nil || l.EncodingType != "url" || l.Prefix != edgefake.TableOf().Dir()+"/" {
		t.Errorf("owner: %+v", l)
	}
	first := h.list("list-type=2&max-keys=1")
	second := h.list("list-type=2&max-keys=1&continuation-token=" + first.NextContinuationToken)
	if !first.IsTruncated || second.IsTruncated || len(second.Contents) != 1 || second.Contents[0].Key <= first.Contents[0].Key || second.ContinuationToken != first.NextContinuationToken {
		t.Errorf("pages: %+v %+v", first, second)
	}
	if l := h.list(fmt.Sprintf("list-type=2&start-after=%s", first.Contents[0].Key)); len(l.Contents) != 1 {
		t.Errorf("start-after: %+v", l)
	}
	if l := h.list("marker=" + first.Contents[0].Key); len(l.Contents) != 1 || l.Marker != first.Contents[0].Key {
		t.Errorf("marker: %+v", l)
	}
}
