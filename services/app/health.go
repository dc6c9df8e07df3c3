package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// errStarting is the reason before the first answer of a check.
var errStarting = errors.New("not yet asked")

// readiness collects why a process is not ready. Safe for concurrent use.
type readiness struct {
	mu      sync.Mutex
	names   []string
	pending []pending
	reasons map[string]error // absent or nil = good
}

type pending struct {
	name  string
	ready <-chan struct{}
}

func newReadiness() *readiness { return &readiness{reasons: make(map[string]error)} }

// set states a reason, nil for none, and answers whether it is news.
func (r *readiness) set(name string, reason error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.reasons[name]
	if !known {
		r.names = append(r.names, name)
	}
	r.reasons[name] = reason
	return !known || (old == nil) != (reason == nil)
}

// Check answers all reasons, nil when ready.
func (r *readiness) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, n := range r.names {
		if err := r.reasons[n]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", n, err))
		}
	}
	for _, p := range r.pending {
		select {
		case <-p.ready:
		default:
			errs = append(errs, fmt.Errorf("%s: starting", p.name))
		}
	}
	return errors.Join(errs...)
}

// until asks again and again until a door has answered once. From then on its absence is not the process's: what was
// published goes on being served. The log says it when the door is away and when it answers, not at every try.
func (r *readiness) until(name string, every time.Duration, log *slog.Logger, ask func(context.Context) error) *part {
	r.set(name, errStarting)
	return newPart("await "+name, func(ctx context.Context, ready func()) error {
		ready()
		tick := time.NewTicker(every)
		defer tick.Stop()
		for said := false; ; {
			err := ask(ctx)
			if ctx.Err() != nil {
				return nil
			}
			r.set(name, err)
			if err == nil {
				log.Info("door answers", "door", name)
				<-ctx.Done()
				return nil
			}
			if !said {
				log.Warn("door does not answer, trying on", "door", name, "err", err)
				said = true
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// await makes the process not ready until the channel is closed.
func (r *readiness) await(name string, ready <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, pending{name, ready})
}

// draining is a part that makes the process not ready before anything behind it stops.
func (r *readiness) draining(delay time.Duration) *part {
	return newPart("readiness", func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		r.set("process", errors.New("stopping"))
		if delay > 0 {
			<-time.After(delay)
		}
		return nil
	})
}

// handler answers /livez, /readyz and /metrics for processes without an edge.
func (r *readiness) handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "alive\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := r.Check(); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
			return
		}
		answer(w, http.StatusOK, "ready\n")
	})
	mux.Handle("GET /metrics", metrics)
	return mux
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	io.WriteString(w, text) //nolint:errcheck // the client has gone
}
