// Package sigv4 checks AWS Signature Version 4 on S3 requests: in the Authorization header or in the query
// (presigned). Any region is accepted and the signature is checked for it.
//
// Source of the rules: AWS, "Authenticating Requests (AWS Signature Version 4)".
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/lru"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	service    = "s3"
	timeFormat = "20060102T150405Z"
	unsigned   = "UNSIGNED-PAYLOAD"
	maxSkew    = 15 * time.Minute
	maxExpires = 7 * 24 * time.Hour
	maxSigned  = 64 // names in SignedHeaders
	keyCache   = 1024
)

// Error is a refusal with the code that S3 gives it.
type Error struct {
	Code    string
	Message string
}

// Error is code and message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Keys finds the secret of an access key and its session token (empty: none was sent), and what the credentials
// are good for. Its error is answered as it is; make it an *Error.
type Keys[C any] func(accessKey, sessionToken string, now time.Time) (secret string, claims C, err error)

// Verifier checks signatures. Safe for concurrent use.
type Verifier[C any] struct {
	keys    Keys[C]
	now     func() time.Time
	signing *lru.Cache[string, []byte]
}

// New makes a verifier that asks keys for secrets.
func New[C any](keys Keys[C], now func() time.Time) *Verifier[C] {
	return &Verifier[C]{keys: keys, now: now, signing: lru.New[string, []byte](keyCache)}
}

// auth is what a request says about its signature.
type auth struct {
	presigned bool
	accessKey string
	token     string
	date      string // of the scope: yyyymmdd
	region    string
	time      time.Time
	stamp     string // the time as it was signed
	signed    []string
	signature []byte
	payload   string
}

func (a *auth) scope() string {
	return a.date + "/" + a.region + "/" + service + "/" + terminator
}

// Verify checks a request and answers what its credentials are good for. Every error is an *Error, or what Keys
// answered.
func (v *Verifier[C]) Verify(r *http.Request) (C, error) {
	var none C
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return none, err
	}
	now := v.now()
	a, err := parseAuth(r, query, now)
	if err != nil {
		return none, err
	}
	secret, claims, err := v.keys(a.accessKey, a.token, now)
	if err != nil {
		return none, err
	}
	canonical, err := canonicalRequest(r, query, a)
	if err != nil {
		return none, err
	}
	sum := sha256.Sum256([]byte(canonical))
	toSign := algorithm + "\n" + a.stamp + "\n" + a.scope() + "\n" + hex.EncodeToString(sum[:])
	want := mac(v.signingKey(secret, a), toSign)
	if !hmac.Equal(want, a.signature) {
		return none, refuse("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	}
	return claims, nil
}

func parseAuth(r *http.Request, query []pair, now time.Time) (*auth, error) {
	header, hasHeader := r.Header["Authorization"]
	_, hasQuery := find(query, "X-Amz-Algorithm")
	_, hasV2 := find(query, "AWSAccessKeyId")
	switch {
	case hasHeader && hasQuery:
		return nil, refuse("InvalidArgument", "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter or the Authorization header should be specified")
	case hasQuery:
		return parsePresigned(query, r, now)
	case hasHeader && len(header) == 1:
		return parseHeader(header[0], r, now)
	case hasHeader || hasV2:
		return nil, refuse("InvalidRequest", "The authorization mechanism you have provided is not supported. Please use %s.", algorithm)
	}
	return nil, refuse("AccessDenied", "Access Denied: the request is not signed")
}

func parseHeader(value string, r *http.Request, now time.Time) (*auth, error) {
	rest, ok := strings.CutPrefix(value, algorithm)
	if !ok || rest == "" || rest[0] != ' ' {
		return nil, refuse("InvalidRequest", "The authorization mechanism you have provided is not supported. Please use %s.", algorithm)
	}
	a := &auth{}
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, val, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := fields[name]; !ok || twice {
			return nil, refuse("AuthorizationHeaderMalformed", "The authorization header is malformed.")
		}
		fields[name] = val
	}
	if err := a.fill(fields["Credential"], fields["SignedHeaders"], fields["Signature"], "AuthorizationHeaderMalformed"); err != nil {
		return nil, err
	}
	if err := a.headerTime(r); err != nil {
		return nil, err
	}
	if d := now.Sub(a.time); d > maxSkew || d < -maxSkew {
		return nil, refuse("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
	}
	if a.time.UTC().Format("20060102") != a.date {
		return nil, refuse("AuthorizationHeaderMalformed", "The authorization header is malformed; the credential's date is not the request's.")
	}
	a.token = r.Header.Get("X-Amz-Security-Token")
	a.payload = r.Header.Get("X-Amz-Content-Sha256")
	if err := checkPayload(a.payload); err != nil {
		return nil, err
	}
	return a, a.requireSigned(r, "host", "x-amz-security-token", "x-amz-content-sha256", "x-amz-date")
}

func parsePresigned(query []pair, r *http.Request, now time.Time) (*auth, error) {
	const code = "AuthorizationQueryParametersError"
	get := func(name string) string { v, _ := find(query, name); return v }
	if get("X-Amz-Algorithm") != algorithm {
		return nil, refuse(code, "X-Amz-Algorithm only supports %q", algorithm)
	}
	a := &auth{presigned: true, token: get("X-Amz-Security-Token"), payload: unsigned}
	if err := a.fill(get("X-Amz-Credential"), get("X-Amz-SignedHeaders"), get("X-Amz-Signature"), code); err != nil {
		return nil, err
	}
	a.stamp = get("X-Amz-Date")
	t, err := time.Parse(timeFormat, a.stamp)
	if err != nil || t.Format("20060102") != a.date {
		return nil, refuse(code, "X-Amz-Date must be in the ISO8601 long format and of the credential's date")
	}
	seconds, err := strconv.ParseInt(get("X-Amz-Expires"), 10, 64)
	if err != nil || seconds < 1 || seconds > int64(maxExpires/time.Second) {
		return nil, refuse(code, "X-Amz-Expires must be between 1 and %d seconds", int64(maxExpires/time.Second))
	}
	a.time = t
	if t.Sub(now) > maxSkew {
		return nil, refuse("AccessDenied", "Request is not valid yet")
	}
	if now.Sub(t) > time.Duration(seconds)*time.Second {
		return nil, refuse("AccessDenied", "Request has expired")
	}
	if p := r.Header.Get("X-Amz-Content-Sha256"); p != "" {
		a.payload = p
	}
	if p, ok := find(query, "X-Amz-Content-Sha256"); ok {
		a.payload = p
	}
	if err := checkPayload(a.payload); err != nil {
		return nil, err
	}
	return a, a.requireSigned(r, "host", "x-amz-security-token")
}

// fill reads the three fields that both forms have.
func (a *auth) fill(credential, signed, signature, code string) error {
	c := strings.Split(credential, "/")
	if len(c) != 5 || c[0] == "" || len(c[1]) != 8 || c[2] == "" || c[3] != service || c[4] != terminator {
		return refuse(code, "The credential is malformed; expecting <access key>/<yyyymmdd>/<region>/s3/aws4_request.")
	}
	a.accessKey, a.date, a.region = c[0], c[1], c[2]
	a.signed = strings.Split(signed, ";")
	if signed == "" || len(a.signed) > maxSigned || !slices.IsSorted(a.signed) || signed != strings.ToLower(signed) {
		return refuse(code, "SignedHeaders must be a sorted, lower-case list.")
	}
	var err error
	if a.signature, err = hex.DecodeString(signature); err != nil || len(a.signature) != sha256.Size {
		return refuse(code, "The signature must be 64 hexadecimal characters.")
	}
	return nil
}

func (a *auth) headerTime(r *http.Request) error {
	var err error
	if a.stamp = r.Header.Get("X-Amz-Date"); a.stamp != "" {
		a.time, err = time.Parse(timeFormat, a.stamp)
	} else {
		// Signed by the Date header: it must be covered then, which requireSigned can't know.
		a.time, err = http.ParseTime(r.Header.Get("Date"))
		a.stamp = a.time.UTC().Format(timeFormat)
		if err == nil && !slices.Contains(a.signed, "date") {
			err = errors.New("date is not signed")
		}
	}
	if err != nil {
		return refuse("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
	}
	return nil
}

// requireSigned refuses a request with one of the headers that is not covered by the signature. Host always is.
func (a *auth) requireSigned(r *http.Request, names ...string) error {
	for _, n := range names {
		if n != "host" && len(r.Header.Values(n)) == 0 {
			continue
		}
		if !slices.Contains(a.signed, n) {
			return refuse("AccessDenied", "There were headers present in the request which were not signed: %s", n)
		}
	}
	return nil
}

// checkPayload takes what a read may say of its body, which is never looked at. Chunked signatures are for uploads.
func checkPayload(p string) error {
	if p == unsigned {
		return nil
	}
	if strings.HasPrefix(p, "STREAMING-") {
		return refuse("NotImplemented", "Streaming payloads are not supported: this endpoint is read-only.")
	}
	if b, err := hex.DecodeString(p); err != nil || len(b) != sha256.Size {
		return refuse("InvalidRequest", "Missing or malformed header: x-amz-content-sha256")
	}
	return nil
}

func (v *Verifier[C]) signingKey(secret string, a *auth) []byte {
	id := a.date + "/" + a.region + "/" + secret
	if k, ok := v.signing.Get(id); ok {
		return k
	}
	k := mac(mac(mac(mac([]byte("AWS4"+secret), a.date), a.region), service), terminator)
	// Regions are the sender's choice: a long one is not worth keeping.
	if len(a.region) <= 64 {
		v.signing.Add(id, k, 1)
	}
	return k
}

func mac(key []byte, data string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(data))
	return h.Sum(nil)
}

type pair struct{ name, value string }

func find(query []pair, name string) (string, bool) {
	for _, p := range query {
		if p.name == name {
			return p.value, true
		}
	}
	return "", false
}

// parseQuery decodes a raw query. A plus is a blank, as every server takes it.
func parseQuery(raw string) ([]pair, error) {
	var out []pair
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		n, val, _ := strings.Cut(part, "=")
		name, err1 := url.QueryUnescape(n)
		value, err2 := url.QueryUnescape(val)
		if err1 != nil || err2 != nil {
			return nil, refuse("InvalidArgument", "The query is not decodable.")
		}
		out = append(out, pair{name, value})
	}
	return out, nil
}
