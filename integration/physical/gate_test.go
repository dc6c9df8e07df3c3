package physical

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// kind is what a request of a drain is for.
type kind int

const (
	other      kind = iota
	load            // of the table's metadata from the catalog
	readData        // a data file or an equality delete, or a part of it
	deleteFile      // position deletes or vectors are written
	manifest
	list // the manifest list is written
	commit
)

func kindOf(r *http.Request) kind {
	name := path.Base(r.URL.Path)
	catalog := strings.HasPrefix(r.URL.Path, "/v1/") && strings.Contains(r.URL.Path, "/tables/")
	switch {
	case catalog && r.Method == http.MethodGet:
		return load
	case catalog && r.Method == http.MethodPost:
		return commit
	case r.Method == http.MethodGet:
		return kindOfObject(name)
	case r.Method != http.MethodPut:
	case strings.Contains(name, "-deletes."):
		return deleteFile
	case strings.HasPrefix(name, "snap-"):
		return list
	case path.Ext(name) == ".avro":
		return manifest
	}
	return other
}

// kindOfObject is what an object is read for.
func kindOfObject(name string) kind {
	if path.Ext(name) == ".parquet" {
		return readData
	}
	return other
}

// moment is a time at which a program is killed: when the n-th request of a kind has come and is not passed on, or when
// it was carried out and is not answered.
type moment struct {
	kind kind
	n    int
	done bool
	// after, if set, has the requests counted only from the first one of that kind on.
	after kind
	// objects has several requests for one object counted once.
	objects bool
}

// gate stands before the catalog and the S3 server for one program. It remembers what the program read and wrote, and
// kills it at a moment.
type gate struct {
	lake *harness.Lake // as the program is told of it

	mu      sync.Mutex
	cmd     *exec.Cmd // nil = it is not killed
	at      moment
	begun   bool
	n       int
	seen    map[string]bool // objects that were counted
	killed  bool
	died    chan struct{}
	written []string         // objects, in the order in which they were stored
	read    map[string]int64 // bytes of each object
}

// newGate opens a gate. It closes with the test.
func newGate(t *testing.T, lake *harness.Lake) *gate {
	t.Helper()
	g := &gate{read: map[string]int64{}}
	through := *lake
	for _, to := range []*string{&through.URI, &through.S3} {
		server := httptest.NewServer(g.handler(t, *to))
		t.Cleanup(server.Close)
		*to = server.URL
	}
	g.lake = &through
	return g
}

func (g *gate) handler(t *testing.T, to string) http.Handler {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:      &http.Transport{DisableCompression: true},
		ModifyResponse: g.answered,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.hit(r, false) {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})
}

// answered is called when a request was carried out and before that is known to the program.
func (g *gate) answered(resp *http.Response) error {
	r := resp.Request
	if resp.StatusCode < 300 && r.Method == http.MethodPut {
		g.mu.Lock()
		g.written = append(g.written, "s3:/"+r.URL.Path)
		g.mu.Unlock()
	}
	if g.hit(r, true) {
		_ = resp.Body.Close() // nobody waits for it
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet {
		resp.Body = &counted{resp.Body, g, "s3:/" + r.URL.Path}
	}
	return nil
}

// hit counts a request, and kills the program if its moment has come. It answers whether the program is dead.
func (g *gate) hit(r *http.Request, done bool) bool {
	g.mu.Lock()
	if g.killed {
		g.mu.Unlock()
		<-g.died
		return true
	}
	k := kindOf(r)
	if g.cmd == nil || done != g.at.done || !g.begun && k != g.at.after {
		g.mu.Unlock()
		return false
	}
	if !g.begun {
		g.begun = true
		g.mu.Unlock()
		return false
	}
	if k == g.at.kind && !(g.at.objects && g.seen[r.URL.Path]) {
		g.n++
		g.seen[r.URL.Path] = true
	}
	if k != g.at.kind || g.n < g.at.n {
		g.mu.Unlock()
		return false
	}
	g.killed = true
	_ = g.cmd.Process.Kill() // what it began is not awaited
	g.mu.Unlock()
	<-g.died
	return true
}

// run runs a program to its end, or until the moment if its n is not 0. It answers whether it was killed.
func (g *gate) run(cmd *exec.Cmd, at moment) (bool, error) {
	g.mu.Lock()
	g.at, g.begun, g.n, g.seen, g.killed, g.died = at, at.after == other, 0, map[string]bool{}, false, make(chan struct{})
	if err := cmd.Start(); err != nil {
		g.mu.Unlock()
		return false, err
	}
	if at.n > 0 {
		g.cmd = cmd
	}
	g.mu.Unlock()
	err := cmd.Wait()
	close(g.died)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cmd = nil
	if g.killed {
		return true, nil
	}
	return false, err
}

// take answers what was written and read since it was asked last.
func (g *gate) take() (written []string, read map[string]int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	written, read = g.written, g.read
	g.written, g.read = nil, map[string]int64{}
	return written, read
}

// counted counts what is read of an object.
type counted struct {
	io.ReadCloser
	g    *gate
	path string
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.g.mu.Lock()
	c.g.read[c.path] += int64(n)
	c.g.mu.Unlock()
	return n, err
}
