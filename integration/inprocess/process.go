package inprocess

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/telemetry"
	"github.com/frazil-io/frazil/services/app"
)

// patience is how long the product may take to come up.
const patience = time.Minute

// Process is all services of the product within this process, to be started and stopped again and again. Used by one
// goroutine.
type Process struct {
	Config app.Config
	// Store is dedup's state; nil: what Config names.
	Store chainstore.Store
	// Clock that the product goes by; nil: the machine's.
	Clock func() time.Time
	// Log gets what the product logs; nil: nobody.
	Log io.Writer

	cancel context.CancelFunc
	done   chan struct{}
	err    error // how it ended, once done is closed
}

// Running reports whether it was started and not stopped.
func (p *Process) Running() bool { return p.cancel != nil }

// Start runs the product and waits until it is ready.
func (p *Process) Start(ctx context.Context) error {
	log := p.Log
	if log == nil {
		log = io.Discard
	}
	tel, err := telemetry.New(ctx, p.Config.Telemetry, "frazil", "test", log)
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel, p.done, p.err = cancel, make(chan struct{}), nil
	go func() {
		defer close(p.done)
		p.err = app.RunGiven(run, p.Config, app.TargetAll, tel, app.Given{Store: p.Store, Clock: p.Clock})
		if err := tel.Shutdown(context.WithoutCancel(run)); p.err == nil {
			p.err = err
		}
	}()
	return p.until(p.ready)
}

func (p *Process) ready() error {
	res, err := http.Get("http://" + p.Config.REST.Listen + "/readyz")
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// until repeats try until it succeeds, the process has ended, or patience has.
func (p *Process) until(try func() error) error {
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the product has ended: %w", p.err)
		case <-deadline:
			return fmt.Errorf("the product is not ready: %w", err)
		case <-tick.C:
		}
	}
}

// Stop ends the product as SIGTERM does, and answers what it ended with. Stopping what does not run is nothing.
func (p *Process) Stop() error {
	if p.cancel == nil {
		return nil
	}
	p.cancel()
	<-p.done
	p.cancel = nil
	return p.err
}
