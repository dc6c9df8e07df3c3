package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/libs/freeport"
)

const (
	loadTurns  = 20
	loadInTurn = 50
)

// asking is one kind of request, and how long its answers took, ms.
type asking struct {
	name   string
	url    string
	etag   string
	status int
	took   Series
	make   func(context.Context) (*http.Request, error) // instead of a plain GET of url
}

// request makes one request.
func (a *asking) request(ctx context.Context) (*http.Request, error) {
	if a.make != nil {
		return a.make(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err == nil && a.etag != "" {
		req.Header.Set("If-None-Match", a.etag)
	}
	return req, err
}

// benchCatalog is part (d): loadTable of a table that has not changed.
func benchCatalog(t *testing.T, f *field, r *report) {
	topic := f.topic(t, formatJSON)
	r.part("d", "loadTable unchanged, one request after the other on one connection")
	g := startGateway(t, setting{broker: f.broker, registry: f.registry})
	defer g.stop()
	g.await(t, topic.name)
	empty, etag := startEmpty(t), ""
	harness.Eventually(t, "the gateway answers", func() error {
		resp, err := http.Get(g.tableURL(topic.name))
		if err != nil {
			return err
		}
		etag = resp.Header.Get("ETag")
		return resp.Body.Close()
	})
	all := []*asking{
		empty,
		{name: "loadTable 304", url: g.tableURL(topic.name), etag: etag, status: http.StatusNotModified},
		{name: "loadTable 200", url: g.tableURL(topic.name), status: http.StatusOK},
	}
	askInTurn(t, r, all, 2)
}

// startEmpty starts a server whose handler does nothing.
func startEmpty(t *testing.T) *asking {
	t.Helper()
	address := freeport.Address(t)
	startService(t, "empty", t.TempDir(), roleCommand(t, role{Name: "empty", Listen: address}))
	harness.Eventually(t, "the empty handler answers", func() error {
		_, _, err := get(t.Context(), "http://"+address, "")
		return err
	})
	return &asking{name: "empty handler", url: "http://" + address, status: http.StatusNoContent}
}

// askInTurn asks all in turn. The first is the one that the others are compared with: by at most so many milliseconds more.
func askInTurn(t *testing.T, r *report, all []*asking, atMost float64) {
	t.Helper()
	for turn := range loadTurns + 1 {
		for _, a := range all {
			took, err := a.ask(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if turn > 0 { // the first turn warms
				a.took = append(a.took, took...)
			}
		}
	}
	for _, a := range all {
		r.row(a.name, a.took, "ms")
	}
	for _, a := range all[1:] {
		difference := a.took.Median() - all[0].took.Median()
		r.ratio(fmt.Sprintf("%s - %s, difference of medians", a.name, all[0].name), Series{difference}, "ms", AtMost(atMost))
	}
}

// ask asks many times in a row.
func (a *asking) ask(ctx context.Context) (took Series, err error) {
	for range loadInTurn {
		req, err := a.request(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began).Seconds()*1e3)
		if resp.StatusCode != a.status {
			return nil, fmt.Errorf("%s: status %d, want %d", a.name, resp.StatusCode, a.status)
		}
	}
	return took, nil
}
