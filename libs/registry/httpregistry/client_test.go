package httpregistry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/registry"
	"github.com/frazil-io/frazil/libs/registry/httpregistry"
	"github.com/frazil-io/frazil/libs/registry/registrytest"
)

// entries is a registry in which "order" names "money", which names "currency".
func entries() []registrytest.Entry {
	return []registrytest.Entry{
		{Subject: "currency", Version: 1, ID: 1, Schema: `"c"`, SchemaType: "JSON"},
		{Subject: "money", Version: 3, ID: 2, Schema: `"m"`, SchemaType: "JSON", References: []registrytest.Reference{{Name: "cur.json", Subject: "currency", Version: 1}}},
		{Subject: "order/s-value", Version: 1, ID: 7, Schema: `"o1"`},
		{Subject: "order/s-value", Version: 2, ID: 9, Schema: `"o2"`, SchemaType: "JSON", References: []registrytest.Reference{
			{Name: "money.json", Subject: "money", Version: 3}, {Name: "cur.json", Subject: "currency", Version: 1}}},
	}
}

func client(t *testing.T, h http.Handler, change func(*httpregistry.Config)) *httpregistry.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg := httpregistry.Default()
	cfg.URL, cfg.Backoff = srv.URL+"/", time.Microsecond
	if change != nil {
		change(&cfg)
	}
	c, err := httpregistry.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestByIDIsAskedForOnce(t *testing.T) {
	h := registrytest.New(entries()...)
	c := client(t, h, nil)
	want := registry.Schema{ID: 7, Type: "AVRO", Text: `"o1"`}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if got, err := c.ByID(t.Context(), 7); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
	wg.Wait()
	h.Fail(http.StatusInternalServerError)
	if _, err := c.ByID(t.Context(), 7); err != nil {
		t.Errorf("a known id needed the registry again: %v", err)
	}
	if n := h.Requests(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestReferencesAreResolvedInDependencyOrder(t *testing.T) {
	c := client(t, registrytest.New(entries()...), nil)
	got, err := c.ByID(t.Context(), 9)
	if err != nil {
		t.Fatal(err)
	}
	want := registry.Schema{ID: 9, Type: "JSON", Text: `"o2"`, References: []registry.Reference{
		{Name: "cur.json", Subject: "currency", Version: 1, Text: `"c"`},
		{Name: "money.json", Subject: "money", Version: 3, Text: `"m"`},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestVersionsIncludeSoftlyDeletedOnes(t *testing.T) {
	h := registrytest.New(entries()...)
	h.Delete("order/s-value", 1)
	c := client(t, h, nil)
	got, err := c.Versions(t.Context(), "order/s-value")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].ID != 7 || got[1].ID != 9 || len(got[1].References) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestKinds(t *testing.T) {
	broken := registrytest.New(registrytest.Entry{Subject: "a", Version: 1, ID: 1, References: []registrytest.Reference{{Subject: "gone", Version: 1}}})
	for name, tc := range map[string]struct {
		handler http.Handler
		fail    int
		want    error
	}{
		"unknown id":                  {handler: registrytest.New(), want: fault.ErrNotFound},
		"500":                         {handler: registrytest.New(entries()...), fail: 500, want: fault.ErrUnavailable},
		"429":                         {handler: registrytest.New(entries()...), fail: 429, want: fault.ErrUnavailable},
		"403":                         {handler: registrytest.New(entries()...), fail: 403, want: fault.ErrDenied},
		"404 of something else":       {handler: http.NotFoundHandler(), want: fault.ErrUnavailable},
		"404 of a wrong path":         {handler: http.StripPrefix("/schemas", registrytest.New(entries()...)), want: fault.ErrUnavailable},
		"200 of something else":       {handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), want: fault.ErrUnavailable},
		"reference that is not there": {handler: broken, want: fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			if h, ok := tc.handler.(*registrytest.Handler); ok {
				h.Fail(tc.fail)
			}
			if _, err := client(t, tc.handler, nil).ByID(t.Context(), 1); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestNobodyListening(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c := client(t, http.NotFoundHandler(), func(cfg *httpregistry.Config) { cfg.URL = srv.URL })
	if _, err := c.Versions(t.Context(), "x"); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestATransientFailureIsRetried(t *testing.T) {
	inner, calls := registrytest.New(entries()...), 0
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	}), nil)
	if _, err := c.ByID(t.Context(), 7); err != nil || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestAnAbsentCallerGetsItsCause(t *testing.T) {
	gone := errors.New("gone home")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := client(t, registrytest.New(), nil).Versions(ctx, "x"); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestAuthorization(t *testing.T) {
	h := registrytest.New(entries()...)
	for name, tc := range map[string]struct {
		header string
		change func(*httpregistry.Config)
		want   error
	}{
		"basic":  {"Basic dXNlcjpwdw==", func(c *httpregistry.Config) { c.Username, c.Password = "user", "pw" }, nil},
		"bearer": {"Bearer t0ken", func(c *httpregistry.Config) { c.Token = "t0ken" }, nil},
		"none":   {"Bearer t0ken", nil, fault.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			h.RequireAuthorization(tc.header)
			if _, err := client(t, h, tc.change).ByID(t.Context(), 7); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, change := range []func(*httpregistry.Config){
		func(c *httpregistry.Config) { c.URL = "registry:8081" },
		func(c *httpregistry.Config) { c.Username, c.Token = "u", "t" },
		func(c *httpregistry.Config) { c.Attempts = 0 },
	} {
		cfg := httpregistry.Default()
		cfg.URL = "http://registry:8081"
		change(&cfg)
		if _, err := httpregistry.New(cfg, nil); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}
