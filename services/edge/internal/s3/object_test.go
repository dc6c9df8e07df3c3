package s3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/services/edge/internal/edgefake"
)

// objects makes one of each kind of object, with known bytes.
func objects(h *harness) map[string][]byte {
	data := h.fake.DataFile(0, pattern(5000))
	out := map[string][]byte{
		data.Key(): pattern(5000),
		h.fake.DeleteFile(data, objectname.V2, pattern(777)): pattern(777),
		h.fake.ManifestListKey(objectname.V2):                []byte("manifest list of v2"),
	}
	return out
}

// Every range form against a byte array (RFC 9110, 14.1.2).
func TestRanges(t *testing.T) {
	h := newHarness(t)
	for key, data := range objects(h) {
		size := len(data)
		for _, c := range []struct {
			header   string
			from, to int // half-open; to < 0: 416; from < 0: 200 and everything
		}{
			{"", -1, 0}, {"bytes=0-0", 0, 1}, {"bytes=0-", 0, size}, {"bytes=1-", 1, size}, {"bytes=5-9", 5, 10},
			{fmt.Sprintf("bytes=0-%d", size-1), 0, size}, {fmt.Sprintf("bytes=0-%d", size), 0, size},
			{"bytes=3-99999999999999999999999", 3, size}, {fmt.Sprintf("bytes=%d-", size-1), size - 1, size},
			{fmt.Sprintf("bytes=%d-", size), 0, -1}, {fmt.Sprintf("bytes=%d-%d", size+5, size+9), 0, -1},
			{"bytes=99999999999999999999999-", 0, -1},
			{"bytes=-1", size - 1, size}, {"bytes=-8", size - 8, size}, {fmt.Sprintf("bytes=-%d", size), 0, size},
			{"bytes=-262144", 0, size}, {"bytes=-99999999999999999999999", 0, size}, {"bytes=-0", 0, -1},
			// Not single byte ranges: ignored.
			{"bytes=5-4", -1, 0}, {"bytes=", -1, 0}, {"bytes=-", -1, 0}, {"bytes=a-b", -1, 0}, {"bytes=+1-2", -1, 0},
			{"bytes=0-1,3-4", -1, 0}, {"items=0-1", -1, 0}, {"bytes=1", -1, 0}, {"bytes=--1", -1, 0},
		} {
			a := h.get(key, "Range", c.header)
			want, status, contentRange := data, 200, ""
			if c.from >= 0 && c.to >= 0 {
				want, status = data[c.from:c.to], 206
				contentRange = fmt.Sprintf("bytes %d-%d/%d", c.from, c.to-1, size)
			}
			if c.to < 0 {
				if a.StatusCode != 416 || a.code(t) != "InvalidRange" || a.Header.Get("Content-Range") != fmt.Sprintf("bytes */%d", size) {
					t.Errorf("%q of %d: %d %v", c.header, size, a.StatusCode, a.Header)
				}
				continue
			}
			if a.StatusCode != status || a.Header.Get("Content-Range") != contentRange || !bytes.Equal(a.body, want) || a.err != nil {
				t.Errorf("%q of %d: %d %q, %d bytes, %v", c.header, size, a.StatusCode, a.Header.Get("Content-Range"), len(a.body), a.err)
			}
			if a.ContentLength != int64(len(want)) || a.Header.Get("Accept-Ranges") != "bytes" || a.Header.Get("ETag") == "" || a.Header.Get("Date") == "" || a.Header.Get("Last-Modified") == "" {
				t.Errorf("%q: headers %v", c.header, a.Header)
			}
		}
	}
}

func TestRandomRanges(t *testing.T) {
	h := newHarness(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for key, data := range objects(h) {
		for range 40 {
			from := r.IntN(len(data))
			to := from + r.IntN(len(data)*2)
			a := h.get(key, "Range", fmt.Sprintf("bytes=%d-%d", from, to))
			if want := data[from:min(to+1, len(data))]; a.StatusCode != 206 || !bytes.Equal(a.body, want) {
				t.Fatalf("seed %d: %d-%d of %d: %d, %d bytes", seed, from, to, len(data), a.StatusCode, len(a.body))
			}
		}
	}
}

func TestHeadIsInstant(t *testing.T) {
	h := newHarness(t)
	for key, data := range objects(h) {
		get := h.get(key)
		reads := h.fake.Calls("ReadData")
		head := h.do("HEAD", "/frazil/"+key)
		if head.StatusCode != 200 || head.ContentLength != int64(len(data)) || len(head.body) != 0 {
			t.Errorf("%s: %d, length %d", key, head.StatusCode, head.ContentLength)
		}
		for _, name := range []string{"ETag", "Last-Modified", "Accept-Ranges", "Content-Type", "Content-Length"} {
			if v := head.Header.Get(name); v == "" || v != get.Header.Get(name) {
				t.Errorf("%s: %s %q for HEAD, %q for GET", key, name, v, get.Header.Get(name))
			}
		}
		if h.fake.Calls("ReadData") != reads {
			t.Errorf("%s: HEAD read the data", key)
		}
	}
	ranged := h.do("HEAD", "/frazil/"+h.fake.ManifestListKey("v2"), "Range", "bytes=-4")
	if ranged.StatusCode != 206 || ranged.ContentLength != 4 {
		t.Errorf("HEAD with a range: %d, %d", ranged.StatusCode, ranged.ContentLength)
	}
	missing := h.do("HEAD", "/frazil/"+h.scope().Prefix+"metadata/v2/none.avro")
	if missing.StatusCode != 404 || len(missing.body) != 0 {
		t.Errorf("HEAD of nothing: %d %q", missing.StatusCode, missing.body)
	}
}

func TestETagIsOfTheName(t *testing.T) {
	h := newHarness(t)
	a, b := h.fake.DataFile(0, pattern(100)), h.fake.DataFile(1000, pattern(100))
	tagA, tagB := h.get(a.Key()).Header.Get("ETag"), h.get(b.Key()).Header.Get("ETag")
	if tagA == tagB || !strings.HasPrefix(tagA, `"fz1-`) || !strings.HasSuffix(tagA, `"`) {
		t.Errorf("tags %s and %s", tagA, tagB)
	}
	other := newHarness(t)
	other.fake.DataFile(0, pattern(100))
	if got := other.get(a.Key()).Header.Get("ETag"); got != tagA {
		t.Errorf("another edge says %s, this one %s", got, tagA)
	}
}

func TestConditions(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	first := h.get(key)
	tag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
	at, err := http.ParseTime(modified)
	if err != nil {
		t.Fatal(err)
	}
	before, after := at.Add(-time.Hour).Format(http.TimeFormat), at.Add(time.Hour).Format(http.TimeFormat)
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"If-Match", tag}, 200}, {[]string{"If-Match", "*"}, 200}, {[]string{"If-Match", `"x", ` + tag}, 200},
		{[]string{"If-Match", strings.Trim(tag, `"`)}, 200}, {[]string{"If-Match", `"x"`}, 412}, {[]string{"If-Match", "W/" + tag}, 412},
		{[]string{"If-None-Match", tag}, 304}, {[]string{"If-None-Match", "W/" + tag}, 304}, {[]string{"If-None-Match", "*"}, 304}, {[]string{"If-None-Match", `"x"`}, 200},
		{[]string{"If-Modified-Since", modified}, 304}, {[]string{"If-Modified-Since", after}, 304}, {[]string{"If-Modified-Since", before}, 200}, {[]string{"If-Modified-Since", "soon"}, 200},
		{[]string{"If-Unmodified-Since", modified}, 200}, {[]string{"If-Unmodified-Since", after}, 200}, {[]string{"If-Unmodified-Since", before}, 412},
		// A tag beats a date.
		{[]string{"If-Match", tag, "If-Unmodified-Since", before}, 200}, {[]string{"If-None-Match", `"x"`, "If-Modified-Since", after}, 200},
		{[]string{"If-Match", tag, "If-None-Match", tag}, 304}, {[]string{"If-Match", tag, "Range", "bytes=0-1"}, 206}, {[]string{"If-Match", `"x"`, "Range", "bytes=0-1"}, 412},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			a := h.do(method, "/frazil/"+key, c.headers...)
			if a.StatusCode != c.want {
				t.Errorf("%s %v: %d, want %d", method, c.headers, a.StatusCode, c.want)
			}
			if c.want == 304 && (len(a.body) != 0 || a.Header.Get("ETag") != tag) {
				t.Errorf("%v: 304 with %q, %v", c.headers, a.body, a.Header)
			}
			if c.want == 412 && method == "GET" && a.code(t) != "PreconditionFailed" {
				t.Errorf("%v: %s", c.headers, a.body)
			}
		}
	}
}

// What the services answer, as S3 says it.
func TestFaults(t *testing.T) {
	h := newHarness(t)
	data := h.fake.DataFile(0, pattern(100))
	deletes := h.fake.DeleteFile(data, objectname.V2, pattern(50))
	for _, c := range []struct {
		kind   error
		status int
		code   string
	}{
		{fault.ErrNotFound, 404, "NoSuchKey"}, {fault.ErrRetired, 404, "NoSuchKey"}, {fault.ErrUnavailable, 503, "SlowDown"},
		{fault.ErrConflict, 503, "SlowDown"}, {fault.ErrCorrupt, 500, "InternalError"}, {fault.ErrUnsupported, 501, "NotImplemented"},
		{fault.ErrInvalid, 400, "InvalidArgument"}, {fault.ErrDenied, 403, "AccessDenied"}, {fault.ErrUnauthenticated, 500, "InternalError"},
		{context.DeadlineExceeded, 503, "SlowDown"},
	} {
		for method, key := range map[string]string{"ReadData": data.Key(), "ReadDeletes": deletes, "ReadMetadata": h.fake.MetadataKey(objectname.V2)} {
			h.fake.Fail = func(_ context.Context, m, _ string) error {
				if m == method {
					return fmt.Errorf("the reason: %w", c.kind)
				}
				return nil
			}
			a := h.get(key)
			if a.StatusCode != c.status || a.code(t) != c.code {
				t.Errorf("%s %v: %d %s", method, c.kind, a.StatusCode, a.body)
			}
			if c.status == 404 && !strings.Contains(string(a.body), "the reason") {
				t.Errorf("%s %v: the reason is missing: %s", method, c.kind, a.body)
			}
			if retry := a.Header.Get("Retry-After") != "" && a.Header.Get("X-Amz-Retry-After") != ""; retry != (c.status == 503) {
				t.Errorf("%s %v: headers %v", method, c.kind, a.Header)
			}
			if a.Header.Get("Content-Range") != "" || a.Header.Get("ETag") != "" {
				t.Errorf("%s %v: an error with the object's headers: %v", method, c.kind, a.Header)
			}
		}
	}
}

// A body that can't be finished breaks; it never ends as if it were whole.
func TestBrokenBodies(t *testing.T) {
	for name, set := range map[string]func(*edgefake.Backend){
		"breaks off": func(b *edgefake.Backend) {
			b.BreakAfter = 2000
			var reads atomic.Int64
			b.Fail = func(_ context.Context, method, _ string) error {
				if method == "ReadData" && reads.Add(1) > 1 {
					return fmt.Errorf("nobody is left: %w", fault.ErrUnavailable)
				}
				return nil
			}
		},
		"too short": func(b *edgefake.Backend) { b.Cut = -1 },
		"too long":  func(b *edgefake.Backend) { b.Cut = 1 },
	} {
		h := newHarness(t)
		data := h.fake.DataFile(0, pattern(5000))
		set(h.fake)
		a := h.get(data.Key())
		if a.err == nil || a.StatusCode != 200 || len(a.body) >= 5000 {
			t.Errorf("%s: %d, %d bytes, %v", name, a.StatusCode, len(a.body), a.err)
		}
	}
	// One that breaks off is read on elsewhere: the client gets it whole.
	h := newHarness(t)
	whole := h.fake.DataFile(0, pattern(5000))
	h.fake.BreakAfter = 2000
	if a := h.get(whole.Key()); a.err != nil || !bytes.Equal(a.body, pattern(5000)) {
		t.Errorf("read on: %d bytes, %v", len(a.body), a.err)
	}
	// Before the first byte it is an ordinary error.
	h = newHarness(t)
	data := h.fake.DataFile(0, pattern(5000))
	h.fake.Cut = -5000
	if a := h.get(data.Key()); a.StatusCode != 503 || a.code(t) != "SlowDown" {
		t.Errorf("no byte: %d %s", a.StatusCode, a.body)
	}
}

// A request holds for a while, then is told to come back; nothing is sent before.
func TestHold(t *testing.T) {
	h := newHarness(t)
	data := h.fake.DataFile(0, pattern(100))
	for _, method := range []string{"ReadData", "ResolveEpoch"} {
		h.fake.Fail = func(ctx context.Context, m, _ string) error {
			if m != method {
				return nil
			}
			tm := <-h.timers
			if stopped := tm.fire(); stopped || tm.d != 20*time.Second {
				t.Errorf("%s: hold of %v, stopped %v", method, tm.d, stopped)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		a := h.get(data.Key(), "Range", "bytes=0-9")
		if a.StatusCode != 503 || a.code(t) != "SlowDown" || a.Header.Get("Retry-After") == "" || a.Header.Get("Content-Range") != "" {
			t.Errorf("%s: %d %s %v", method, a.StatusCode, a.body, a.Header)
		}
		h.advance(time.Hour / 2)
	}
}

// The hold ends with the first byte: a long body is not cut off by it.
func TestHoldEndsWithTheFirstByte(t *testing.T) {
	h := newHarness(t)
	const size = 16 << 20 // more than the buffers between here and the handler take
	data := h.fake.DataFile(0, pattern(size))
	r := h.request("GET", "/frazil/"+data.Key())
	h.sign(r, h.vend(h.scope()))
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if tm := <-h.timers; !tm.fire() {
		t.Error("the hold goes on behind the first byte")
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
}

// A client that hangs up ends its stream.
func TestHangUp(t *testing.T) {
	h := newHarness(t)
	data := h.fake.DataFile(0, pattern(100))
	entered, left := make(chan struct{}), make(chan error, 1)
	h.fake.Fail = func(ctx context.Context, m, _ string) error {
		if m != "ReadData" {
			return nil
		}
		close(entered)
		<-ctx.Done()
		left <- ctx.Err()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := h.request("GET", "/frazil/"+data.Key()).WithContext(ctx)
	h.sign(r, h.vend(h.scope()))
	go func() { <-entered; cancel() }()
	if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
		t.Errorf("answered %d", resp.StatusCode)
	}
	if err := <-left; err == nil {
		t.Error("the stream did not end")
	}
	if strings.Contains(h.log(), "level=WARN") {
		t.Errorf("a hang-up was logged: %s", h.log())
	}
}

// Names that were never issued, whatever makes them so.
func TestNamesNotIssued(t *testing.T) {
	h := newHarness(t)
	d := h.fake.DataFile(0, pattern(100))
	forged := d
	forged.Size = 101
	unsigned := forged.Signed([16]byte{9})
	for name, key := range map[string]string{
		"size changed": forged.Key(), "other key": unsigned.Key(), "cut": d.Key()[:len(d.Key())-1],
		"deletes of a forged name": objectname.Deletes{Data: forged, Dialect: objectname.V2, E: 5}.Key(),
		"prefix only":              strings.TrimSuffix(h.scope().Prefix, "/") + "/", "odd": h.scope().Prefix + "data/3/x.parquet",
		"double slash": h.scope().Prefix + "data//3/" + d.Name() + ".parquet", "dot": h.scope().Prefix + "./data/3/" + d.Name() + ".parquet",
		"dot dot": h.scope().Prefix + "../current/data/3/" + d.Name() + ".parquet", "leading zero": h.scope().Prefix + "data/03/" + d.Name() + ".parquet",
	} {
		a := h.get(key)
		if a.StatusCode != 404 || a.code(t) != "NoSuchKey" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if a := h.get(h.scope().Prefix + "data%2F3%2F" + d.Name() + ".parquet"); a.StatusCode == 200 {
		t.Error("one object has two spellings")
	}
	if n := h.fake.Calls("ReadData") + h.fake.Calls("ReadDeletes"); n != 0 {
		t.Errorf("%d reads of names that were not issued", n)
	}
}

func TestUnknownEpochIsRemembered(t *testing.T) {
	h := newHarness(t)
	d := objectname.DataFile{Table: objectname.Table{Name: "orders", Epoch: "ponmlkjihgfedcba"}, View: objectname.Current, Range: edgeRange(), BlockLog2: 10, FileSchema: "abcdefghij", Encoding: "abcdefghij", Size: 1}.Signed(edgefake.CheckKey())
	scope := h.scope()
	scope.Prefix = d.Table.Location(objectname.Current) + "/"
	get := func() answer {
		r := h.request("GET", "/frazil/"+d.Key())
		h.sign(r, h.vend(scope))
		return h.send(r)
	}
	for range 3 {
		if a := get(); a.StatusCode != 404 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	if n := h.fake.Calls("ResolveEpoch"); n != 1 {
		t.Errorf("asked %d times", n)
	}
	h.advance(3 * time.Second)
	get()
	if n := h.fake.Calls("ResolveEpoch"); n != 2 {
		t.Errorf("asked %d times after the answer went stale", n)
	}
	// An epoch that is merely not known right now is asked for again at once.
	h.advance(time.Minute)
	h.fake.Fail = func(_ context.Context, m, _ string) error {
		if m == "ResolveEpoch" {
			return fmt.Errorf("away: %w", fault.ErrUnavailable)
		}
		return nil
	}
	if a := get(); a.StatusCode != 503 {
		t.Errorf("%d", a.StatusCode)
	}
	if get(); h.fake.Calls("ResolveEpoch") != 4 {
		t.Errorf("asked %d times", h.fake.Calls("ResolveEpoch"))
	}
}

func TestDeleteSizes(t *testing.T) {
	for _, noHeader := range []bool{false, true} {
		h := newHarness(t)
		h.fake.NoSizeHeader = noHeader
		d := h.fake.DataFile(0, pattern(100))
		for n, size := range []int{1, 6000, 100_000} {
			d.Range.Start = edgeRange().Start + 0
			d.Edition = n + 2
			d = d.Signed(edgefake.CheckKey())
			key := h.fake.DeleteFile(d, objectname.V2, pattern(size))
			if a := h.do("HEAD", "/frazil/"+key); a.StatusCode != 200 || a.Header.Get("Content-Length") != strconv.Itoa(size) {
				t.Errorf("no header %v: %d, length %s, want %d", noHeader, a.StatusCode, a.Header.Get("Content-Length"), size)
			}
			if a := h.get(key, "Range", "bytes=-262144"); !bytes.Equal(a.body, pattern(size)) {
				t.Errorf("no header %v: %d bytes, want %d", noHeader, len(a.body), size)
			}
		}
	}
}

func TestZeroBytes(t *testing.T) {
	h := newHarness(t)
	d := h.fake.DataFile(0, nil)
	if a := h.get(d.Key()); a.StatusCode != 200 || a.ContentLength != 0 {
		t.Errorf("%d %d", a.StatusCode, a.ContentLength)
	}
	for _, r := range []string{"bytes=0-", "bytes=-1", "bytes=0-0"} {
		if a := h.get(d.Key(), "Range", r); a.StatusCode != 416 || a.Header.Get("Content-Range") != "bytes */0" {
			t.Errorf("%s: %d %v", r, a.StatusCode, a.Header)
		}
	}
}

func TestResponseOverrides(t *testing.T) {
	h := newHarness(t)
	key := h.fake.ManifestListKey(objectname.V2)
	a := h.do("GET", "/frazil/"+key+"?response-content-type=text%2Fx&response-content-disposition=attachment&x-id=GetObject")
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/x" || a.Header.Get("Content-Disposition") != "attachment" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if a := h.do("GET", "/frazil/"+key+"?response-content-encoding=gzip", "Range", "bytes=99-"); a.StatusCode != 416 || a.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if a := h.get(key, "Accept-Encoding", "gzip"); a.Header.Get("Content-Encoding") != "" {
		t.Errorf("encoded: %v", a.Header)
	}
}
