package sigv4_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/frazil-io/frazil/services/edge/internal/sigv4"
)

const (
	testKey    = "FZABCDEF23456723456723456"
	testSecret = "s3cret_-of/any+kind="
	testToken  = "dG9rZW4_-"
	emptySHA   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func start() time.Time { return time.Date(2026, 11, 29, 23, 50, 7, 0, time.UTC) }

func verifier(t *testing.T, now time.Time) *sigv4.Verifier[string] {
	t.Helper()
	return sigv4.New(func(access, token string, at time.Time) (string, string, error) {
		if !at.Equal(now) {
			t.Errorf("keys asked at %v, want %v", at, now)
		}
		if access != testKey || token != testToken {
			return "", "", &sigv4.Error{Code: "InvalidAccessKeyId"}
		}
		return testSecret, "claims", nil
	}, func() time.Time { return now })
}

func creds() aws.Credentials {
	return aws.Credentials{AccessKeyID: testKey, SecretAccessKey: testSecret, SessionToken: testToken}
}

func signer() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

// wire sends a request through net/http's own writer and reader, so that the verifier sees what a server sees.
func wire(t *testing.T, r *http.Request) *http.Request {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadRequest(bufio.NewReader(&b))
	if err != nil {
		t.Fatalf("%v in %q", err, b.String())
	}
	return got
}

func newRequest(t *testing.T, method, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func signed(t *testing.T, r *http.Request, payload, region string, at time.Time) *http.Request {
	t.Helper()
	r.Header.Set("X-Amz-Content-Sha256", payload)
	if err := signer().SignHTTP(context.Background(), creds(), r, payload, "s3", region, at); err != nil {
		t.Fatal(err)
	}
	return wire(t, r)
}

func presigned(t *testing.T, r *http.Request, expires int, at time.Time) *http.Request {
	t.Helper()
	q := r.URL.Query()
	q.Set("X-Amz-Expires", fmt.Sprint(expires))
	r.URL.RawQuery = q.Encode()
	link, _, err := signer().PresignHTTP(context.Background(), creds(), r, "UNSIGNED-PAYLOAD", "s3", "eu-west-3", at)
	if err != nil {
		t.Fatal(err)
	}
	return wire(t, newRequest(t, r.Method, link))
}

func code(err error) string {
	var e *sigv4.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// randomTarget makes URLs with everything that encoders differ about, encoded as S3 clients do it.
func randomTarget(r *rand.Rand) string {
	const alphabet = "abcXYZ019-_.~/ +=&%:;,@!$*'()[]äß😀\x01"
	letters := []rune(alphabet)
	text := func(n int) string {
		out := make([]rune, r.IntN(n)+1)
		for i := range out {
			out[i] = letters[r.IntN(len(letters))]
		}
		return string(out)
	}
	encoded := func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
	var path strings.Builder
	for seg := range strings.SplitSeq("/frazil/"+text(30), "/") {
		path.WriteString(encoded(seg))
		path.WriteByte('/')
	}
	target := "http://127.0.0.1:8182/" + strings.Trim(path.String(), "/")
	sep := "?"
	for range r.IntN(5) {
		target += sep + encoded(text(8)) + "=" + encoded(text(8))
		sep = "&"
	}
	return target
}

func TestAcceptsWhatTheSDKSigns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	v := verifier(t, start())
	for i := range 500 {
		target := randomTarget(r)
		req := newRequest(t, []string{"GET", "HEAD"}[r.IntN(2)], target)
		if r.IntN(2) == 0 {
			req.Header.Set("Range", "bytes=0-9")
		}
		if r.IntN(2) == 0 {
			req.Header.Set("X-Amz-Meta-Odd", "  two   blanks \t and a tab ")
		}
		region := []string{"us-east-1", "auto", "nowhere-7"}[r.IntN(3)]
		got := signed(t, req, []string{emptySHA, "UNSIGNED-PAYLOAD"}[r.IntN(2)], region, start())
		claims, err := v.Verify(got)
		if err != nil || claims != "claims" {
			t.Fatalf("seed %d, request %d %s: %v", seed, i, target, err)
		}
		pre := presigned(t, newRequest(t, "GET", target), 60, start())
		if _, err := v.Verify(pre); err != nil {
			t.Fatalf("seed %d, presigned %d %s: %v", seed, i, pre.RequestURI, err)
		}
	}
}

// Whatever is changed after signing is noticed.
func TestRefusesWhatWasChanged(t *testing.T) {
	const target = "http://127.0.0.1:8182/frazil/a-b/current/data/0/x.parquet?x-id=GetObject"
	v := verifier(t, start())
	changes := map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"nothing":         {func(*http.Request) {}, "<nil>"},
		"path":            {func(r *http.Request) { r.URL.Path += "x" }, "SignatureDoesNotMatch"},
		"path is cleaned": {func(r *http.Request) { r.URL.Path = "/frazil//a-b/current/data/0/x.parquet" }, "SignatureDoesNotMatch"},
		"query":           {func(r *http.Request) { r.URL.RawQuery = "x-id=HeadObject" }, "SignatureDoesNotMatch"},
		"query added":     {func(r *http.Request) { r.URL.RawQuery += "&acl" }, "SignatureDoesNotMatch"},
		"method":          {func(r *http.Request) { r.Method = "DELETE" }, "SignatureDoesNotMatch"},
		"host":            {func(r *http.Request) { r.Host = "127.0.0.1:9" }, "SignatureDoesNotMatch"},
		"payload":         {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") }, "SignatureDoesNotMatch"},
		"payload gone":    {func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, "InvalidRequest"},
		"streaming":       {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD") }, "NotImplemented"},
		"token":           {func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", "other") }, "InvalidAccessKeyId"},
		"token gone":      {func(r *http.Request) { r.Header.Del("X-Amz-Security-Token") }, "InvalidAccessKeyId"},
		"time":            {func(r *http.Request) { r.Header.Set("X-Amz-Date", "20261129T235008Z") }, "SignatureDoesNotMatch"},
		"day":             {func(r *http.Request) { r.Header.Set("X-Amz-Date", "20261130T000001Z") }, "AuthorizationHeaderMalformed"},
		"no time":         {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, "AccessDenied"},
		"no signature":    {func(r *http.Request) { r.Header.Del("Authorization") }, "AccessDenied"},
		"bearer":          {func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, "InvalidRequest"},
		"version 2":       {func(r *http.Request) { r.Header.Set("Authorization", "AWS key:sig") }, "InvalidRequest"},
		"two":             {func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }, "InvalidRequest"},
		"both ways":       {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Algorithm=AWS4-HMAC-SHA256" }, "InvalidArgument"},
		"region":          {authEdit("us-east-1", "us-east-2"), "SignatureDoesNotMatch"},
		"service":         {authEdit("/s3/", "/sts/"), "AuthorizationHeaderMalformed"},
		"access key":      {authEdit("FZA", "FZB"), "InvalidAccessKeyId"},
		"key with slash":  {authEdit("FZA", "FZ/A"), "AuthorizationHeaderMalformed"},
		"signature short": {authEdit("Signature=", "Signature=00"), "AuthorizationHeaderMalformed"},
		"host unsigned":   {authEdit("host;", ""), "AccessDenied"},
		"token unsigned":  {authEdit(";x-amz-security-token", ""), "AccessDenied"},
		"date unsigned":   {authEdit(";x-amz-date", ""), "AccessDenied"},
		"header missing":  {authEdit("SignedHeaders=", "SignedHeaders=a-header;"), "AccessDenied"},
		"unsorted":        {authEdit("SignedHeaders=", "SignedHeaders=zzz;"), "AuthorizationHeaderMalformed"},
		"no signed":       {authEdit("SignedHeaders=", "Other="), "AuthorizationHeaderMalformed"},
	}
	for name, c := range changes {
		r := signed(t, newRequest(t, "GET", target), emptySHA, "us-east-1", start())
		c.change(r)
		if _, err := v.Verify(r); code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := v.Verify(signed(t, newRequest(t, "GET", target), "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "us-east-1", start())); code(err) != "NotImplemented" {
		t.Errorf("streaming payload: %v", err)
	}
}

func authEdit(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
	}
}

// Every single flipped bit of the signature is refused.
func TestRefusesEveryOtherSignature(t *testing.T) {
	v := verifier(t, start())
	for bit := range 256 {
		r := signed(t, newRequest(t, "GET", "http://h/frazil"), emptySHA, "us-east-1", start())
		auth := []byte(r.Header.Get("Authorization"))
		at := len(auth) - 64 + bit/4
		const digits = "0123456789abcdef"
		auth[at] = digits[strings.IndexByte(digits, auth[at])^1<<(bit%4)]
		r.Header.Set("Authorization", string(auth))
		if _, err := v.Verify(r); code(err) != "SignatureDoesNotMatch" {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
}

func TestClockSkew(t *testing.T) {
	for _, c := range []struct {
		off  time.Duration
		want string
	}{
		{0, "<nil>"}, {14 * time.Minute, "<nil>"}, {-14 * time.Minute, "<nil>"},
		{16 * time.Minute, "RequestTimeTooSkewed"}, {-16 * time.Minute, "RequestTimeTooSkewed"},
	} {
		// The request is sent at start; the server's clock is off.
		v := verifier(t, start().Add(c.off))
		r := signed(t, newRequest(t, "GET", "http://h/frazil"), emptySHA, "us-east-1", start())
		if _, err := v.Verify(r); code(err) != c.want {
			t.Errorf("clock off by %v: %v, want %s", c.off, err, c.want)
		}
	}
}

func TestPresigned(t *testing.T) {
	for _, c := range []struct {
		name    string
		expires int
		later   time.Duration
		change  func(url.Values)
		want    string
	}{
		{"in time", 60, 59 * time.Second, nil, "<nil>"},
		{"longest", 604800, 604799 * time.Second, nil, "<nil>"},
		{"over", 60, 61 * time.Second, nil, "AccessDenied"},
		{"from a fast clock", 60, -14 * time.Minute, nil, "<nil>"},
		{"from the future", 60, -16 * time.Minute, nil, "AccessDenied"},
		{"too long", 604801, 0, nil, "AuthorizationQueryParametersError"},
		{"zero", 0, 0, nil, "AuthorizationQueryParametersError"},
		{"negative", -1, 0, nil, "AuthorizationQueryParametersError"},
		{"longer than signed", 60, 61 * time.Second, func(q url.Values) { q.Set("X-Amz-Expires", "600") }, "SignatureDoesNotMatch"},
		{"other token", 60, 0, func(q url.Values) { q.Set("X-Amz-Security-Token", "x") }, "InvalidAccessKeyId"},
		{"no token", 60, 0, func(q url.Values) { q.Del("X-Amz-Security-Token") }, "InvalidAccessKeyId"},
		{"parameter added", 60, 0, func(q url.Values) { q.Set("response-content-type", "text/html") }, "SignatureDoesNotMatch"},
		{"algorithm", 60, 0, func(q url.Values) { q.Set("X-Amz-Algorithm", "AWS4-ECDSA-P256-SHA256") }, "AuthorizationQueryParametersError"},
		{"date", 60, 0, func(q url.Values) { q.Set("X-Amz-Date", "yesterday") }, "AuthorizationQueryParametersError"},
		{"host unsigned", 60, 0, func(q url.Values) { q.Set("X-Amz-SignedHeaders", "date") }, "AccessDenied"},
	} {
		r := presigned(t, newRequest(t, "GET", "http://h/frazil/k?x-id=GetObject"), c.expires, start())
		if c.change != nil {
			q := r.URL.Query()
			c.change(q)
			r.URL.RawQuery = q.Encode()
		}
		if _, err := verifier(t, start().Add(c.later)).Verify(r); code(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=a/20261129/r/s3/aws4_request, SignedHeaders=host, Signature=00", "a=b&c", "20261129T235007Z")
	f.Add("AWS4-HMAC-SHA256 ,,,=", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=////", "")
	f.Fuzz(func(t *testing.T, auth, query, date string) {
		v := sigv4.New(func(string, string, time.Time) (string, bool, error) { return "k", true, nil }, start)
		r := newRequest(t, "GET", "http://h/frazil/k")
		r.URL.RawQuery = query
		r.Header.Set("X-Amz-Date", date)
		r.Header.Set("X-Amz-Content-Sha256", emptySHA)
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		if ok, err := v.Verify(r); ok || err == nil {
			t.Fatalf("accepted %q %q %q", auth, query, date)
		}
	})
}
