package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/probe"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
)

// board holds the newest result of each table.
type board struct {
	mu      sync.Mutex
	tables  []string
	results map[string]*Result
	good    map[string]bool
	runs    map[string]int
	failed  map[string]int
	resets  map[string]int
	ref     string
	top     int
}

func newBoard(o *options) *board {
	return &board{tables: o.tables, results: map[string]*Result{}, good: map[string]bool{}, runs: map[string]int{}, failed: map[string]int{}, resets: map[string]int{}, ref: o.ref, top: o.top}
}

// put takes the outcome of a run; r is nil if it failed, and then the figures of the last good one stay.
func (b *board) put(table string, r *Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[table]++
	b.good[table] = r != nil
	if r == nil {
		b.failed[table]++
		return
	}
	if r.Trend.Kind == probe.Reset {
		b.resets[table]++
	}
	b.results[table] = r
}

// before answers what the last good run of a table found; nil if there was none.
func (b *board) before(table string) *probe.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.results[table]
	if r == nil {
		return nil
	}
	rec := r.Record()
	return &rec
}

// metrics writes everything in Prometheus' text format.
func (b *board) metrics() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var results []*Result
	var all []sample
	for _, t := range b.tables {
		labels := [][2]string{{"table", t}, {"ref", b.ref}}
		up := 0.0
		if b.good[t] {
			up = 1
		}
		all = append(all,
			sample{"frazil_table_probe_success", "Whether the last run succeeded.", labels, up},
			sample{"frazil_table_probe_runs_total", "Runs since the process began.", labels, float64(b.runs[t])},
			sample{"frazil_table_probe_failures_total", "Failed runs since the process began.", labels, float64(b.failed[t])},
			sample{"frazil_table_probe_resets_total", "Runs that found equality deletes removed since the one before.", labels, float64(b.resets[t])})
		if r := b.results[t]; r != nil {
			results = append(results, r)
		}
	}
	var out strings.Builder
	writeMetrics(&out, append(all, samples(results, b.top)...))
	return out.String()
}

// ready reports whether every table was measured once.
func (b *board) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.results) == len(b.tables)
}

// serve measures every interval and serves the figures until ctx ends. A run that fails is logged and shows in
// frazil_table_probe_success.
func (p prober) serve(ctx context.Context, cat *catalogs.Catalog, o *options, log *slog.Logger) error {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", o.serve)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	b := newBoard(o)
	server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	log.Info("serving metrics", "address", l.Addr().String(), "interval", o.interval)
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for {
		for _, name := range o.tables {
			r, err := p.measure(ctx, cat, name, b.before(name), o, log)
			if err != nil && ctx.Err() == nil {
				log.Error("table was not measured", "table", name, "err", err)
			}
			b.put(name, r)
		}
		select {
		case <-tick.C:
		case err := <-failed:
			return fmt.Errorf("serve metrics: %w", err)
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := server.Shutdown(end); err != nil {
				return fmt.Errorf("stop serving: %w", err)
			}
			if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve metrics: %w", err)
			}
			return nil
		}
	}
}

func (b *board) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		io.WriteString(w, b.metrics()) //nolint:errcheck // a client that has left
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !b.ready() {
			http.Error(w, "not every table was measured yet", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n") //nolint:errcheck // a client that has left
	})
	return mux
}
