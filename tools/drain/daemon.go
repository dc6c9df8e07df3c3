package drain

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/probe"
	"github.com/frazil-io/frazil/libs/rowindex"
	"github.com/frazil-io/frazil/tools/command"
)

// backlog is how much of each may wait; 0 = no limit.
type backlog struct {
	probeUnits, files, keys, snapshots count
}

// count is a number with k, M, G or T for thousands, as probe prints them.
type count int64

// String implements flag.Value.
func (c *count) String() string { return probe.Short(int64(*c)) }

// Set implements flag.Value.
func (c *count) Set(text string) error {
	factor := 1.0
	for unit, f := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			text, factor = rest, f
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 1 {
		return fmt.Errorf("%q is no number of 1 or more", text)
	}
	*c = count(v * factor)
	return nil
}

func (b *backlog) register(f *flag.FlagSet) {
	f.Var(&b.probeUnits, "max-probe-units", "drain when the equality deletes cost more than `N` probe units, as 20G")
	f.Var(&b.files, "max-equality-deletes", "drain when there are more than `N` equality delete files")
	f.Var(&b.keys, "max-delete-keys", "drain when there are more than `N` delete keys")
	f.Var(&b.snapshots, "max-snapshots", "drain when there are more than `N` snapshots since the last drain")
}

func (b *backlog) any() bool { return *b != backlog{} }

// reason answers why a table is to be drained now; "" if it is not.
func (b *backlog) reason(p *drain.Forecast) string {
	if p.EqualityDeleteFiles == 0 {
		return ""
	}
	if !b.any() {
		return "there are equality deletes"
	}
	for _, l := range []struct {
		what string
		have int64
		max  count
	}{
		{"probe units", p.ProbeUnits, b.probeUnits}, {"equality delete files", p.EqualityDeleteFiles, b.files},
		{"delete keys", p.DeleteKeys, b.keys}, {"snapshots since the last drain", p.Snapshots, b.snapshots},
	} {
		if l.max > 0 && l.have > int64(l.max) {
			return fmt.Sprintf("%s %s, above %s", probe.Short(l.have), l.what, probe.Short(int64(l.max)))
		}
	}
	return ""
}

// stay drains by the backlog until ctx ends. A round that fails is logged and shows in the metrics.
func (d drainer) stay(ctx context.Context, t *table, o *options, std command.Streams) error {
	log := slog.New(slog.NewTextHandler(std.Err, nil)).With("table", o.table)
	index, err := o.openIndex(ctx, t, log)
	if err != nil {
		return fmt.Errorf("table %s: %w", o.table, err)
	}
	b := &board{table: o.table, branch: o.branch}
	failed := make(chan error, 1)
	if o.serve != "" {
		server, err := b.serve(ctx, o.serve, failed, log)
		if err != nil {
			return errors.Join(err, closeIndex(index))
		}
		defer server.Close() //nolint:errcheck // nothing is lost with it
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		d.round(ctx, t, o, index, b, log)
		select {
		case <-tick.C:
		case err := <-failed:
			return errors.Join(fmt.Errorf("serve metrics: %w", err), closeIndex(index))
		case <-ctx.Done():
			return closeIndex(index)
		}
	}
}

func closeIndex(x *rowindex.Index) error {
	if x == nil {
		return nil
	}
	return x.Close()
}

// round looks at the backlog and drains if it is time.
func (d drainer) round(ctx context.Context, t *table, o *options, index *rowindex.Index, b *board, log *slog.Logger) {
	began := d.now()
	cfg := o.settings(d.now, log, index)
	p, err := drain.Plan(ctx, t, cfg)
	if err == nil && len(p.Refused) > 0 {
		err = fmt.Errorf("%s: %w", strings.Join(p.Refused, "; "), fault.ErrUnsupported)
	}
	if err != nil {
		b.failed(p, ctx.Err() != nil)
		if ctx.Err() == nil {
			log.Error("the backlog was not measured, or cannot be drained", "err", err)
		}
		return
	}
	why := o.limits.reason(p)
	if why == "" && o.target == "" {
		b.done(p, nil, d.now())
		return
	}
	if why != "" {
		log.Info("draining", "why", why)
	}
	r, err := drain.Run(ctx, t, cfg)
	if err != nil {
		b.did(r)
		b.failed(p, ctx.Err() != nil)
		if ctx.Err() == nil {
			log.Error("the drain ended early; what it committed stays", "err", err)
		}
		return
	}
	b.done(p, r, d.now())
	if len(r.Snapshots) > 0 || r.Forwarded != 0 {
		log.Info("drained", "equality_delete_files", r.EqualityDeleteFiles, "delete_keys", r.DeleteKeys, "probe_units", r.ProbeUnits,
			"commits", len(r.Snapshots), "conflicts", r.Conflicts, "bytes_read", r.BytesRead, "took", d.now().Sub(began))
	}
}

// board is what the metrics say.
type board struct {
	table, branch string

	mu                               sync.Mutex
	rounds, failures                 int64
	commits, conflicts, files, keys  int64
	probeUnits, bytesRead, positions int64
	backlog                          *drain.Forecast
	success                          time.Time // zero = never
}

// did adds what a run did.
func (b *board) did(r *drain.Report) {
	if r == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commits += int64(len(r.Snapshots))
	b.conflicts += r.Conflicts
	b.files += r.EqualityDeleteFiles
	b.keys += r.DeleteKeys
	b.probeUnits += r.ProbeUnits
	b.bytesRead += r.BytesRead
	b.positions += r.Positions
}

func (b *board) done(p *drain.Forecast, r *drain.Report, at time.Time) {
	b.did(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rounds++
	b.backlog, b.success = p, at
	if r != nil { // it was drained since it was measured
		b.backlog = &drain.Forecast{}
	}
}

func (b *board) failed(p *drain.Forecast, ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ended {
		return
	}
	b.rounds++
	b.failures++
	if p != nil {
		b.backlog = p
	}
}

// metrics writes everything in Prometheus' text format.
func (b *board) metrics() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out strings.Builder
	labels := fmt.Sprintf("{table=%q,branch=%q}", b.table, b.branch)
	put := func(name, kind, help string, v float64) {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n%s%s %s\n", name, help, name, kind, name, labels, strconv.FormatFloat(v, 'g', -1, 64))
	}
	put("frazil_table_drain_rounds_total", "counter", "Looks at the backlog since the process began.", float64(b.rounds))
	put("frazil_table_drain_failures_total", "counter", "Rounds that failed.", float64(b.failures))
	put("frazil_table_drain_commits_total", "counter", "Snapshots committed.", float64(b.commits))
	put("frazil_table_drain_conflicts_total", "counter", "Commits lost to other writers.", float64(b.conflicts))
	put("frazil_table_drain_equality_delete_files_total", "counter", "Equality delete files drained.", float64(b.files))
	put("frazil_table_drain_delete_keys_total", "counter", "Delete keys drained.", float64(b.keys))
	put("frazil_table_drain_probe_units_total", "counter", "Probe units gained.", float64(b.probeUnits))
	put("frazil_table_drain_positions_total", "counter", "Rows that drained deletes hit.", float64(b.positions))
	put("frazil_table_drain_read_bytes_total", "counter", "Bytes read of data and delete files.", float64(b.bytesRead))
	if b.backlog != nil {
		put("frazil_table_drain_backlog_probe_units", "gauge", "Probe units of the equality deletes that wait, at the last look.", float64(b.backlog.ProbeUnits))
		put("frazil_table_drain_backlog_equality_delete_files", "gauge", "Equality delete files that wait, at the last look.", float64(b.backlog.EqualityDeleteFiles))
		put("frazil_table_drain_backlog_delete_keys", "gauge", "Delete keys that wait, at the last look.", float64(b.backlog.DeleteKeys))
	}
	if !b.success.IsZero() {
		put("frazil_table_drain_last_success_seconds", "gauge", "Unix time of the last round that succeeded.", float64(b.success.Unix()))
	}
	return out.String()
}

func (b *board) serve(ctx context.Context, address string, failed chan<- error, log *slog.Logger) (*http.Server, error) {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		io.WriteString(w, b.metrics()) //nolint:errcheck // a client that has left
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		ready := !b.success.IsZero()
		b.mu.Unlock()
		if !ready {
			http.Error(w, "no round has succeeded yet", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n") //nolint:errcheck // a client that has left
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	log.Info("serving metrics", "address", l.Addr().String())
	return server, nil
}
