package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/libs/registry/registrytest"
)

// Registry is a schema registry that serves a captured one's schemas. It can go away and come back at its address.
type Registry struct {
	Handler *registrytest.Handler
	addr    string
	server  *httptest.Server
}

// StartRegistry serves a registry dump until the test ends.
func StartRegistry(t testing.TB, dump string) *Registry {
	t.Helper()
	file, err := os.Open(dump)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	handler, err := registrytest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{Handler: handler, addr: freeport.Address(t)}
	r.Start(t)
	t.Cleanup(r.Stop)
	return r
}

// URL is the base of the registry's API.
func (r *Registry) URL() string { return "http://" + r.addr }

// Start brings the registry back.
func (r *Registry) Start(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	r.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: r.Handler}}
	r.server.Start()
}

// Stop takes the registry away.
func (r *Registry) Stop() {
	if r.server != nil {
		r.server.CloseClientConnections()
		r.server.Close()
		r.server = nil
	}
}
