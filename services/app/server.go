package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// part is a lifecycle.Part made of a function.
type part struct {
	name  string
	ready chan struct{}
	run   func(ctx context.Context, ready func()) error
}

func newPart(name string, run func(ctx context.Context, ready func()) error) *part {
	return &part{name: name, ready: make(chan struct{}), run: run}
}

// Name implements lifecycle.Part.
func (p *part) Name() string { return p.name }

// Ready implements lifecycle.Part.
func (p *part) Ready() <-chan struct{} { return p.ready }

// Run implements lifecycle.Part.
func (p *part) Run(ctx context.Context) error { return p.run(ctx, func() { close(p.ready) }) }

// serveGRPC serves one server on listeners that are open already. At the end running calls may finish for grace.
func serveGRPC(name string, server *grpc.Server, grace time.Duration, listeners ...net.Listener) *part {
	return newPart(name, func(ctx context.Context, ready func()) error {
		failed := make(chan error, len(listeners))
		for _, l := range listeners {
			go func() { failed <- server.Serve(l) }()
		}
		ready()
		var cause error
		ended := 0
		select {
		case <-ctx.Done():
		case cause = <-failed:
			ended++
		}
		stopGracefully(server, grace)
		for ; ended < len(listeners); ended++ {
			if err := <-failed; cause == nil && err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				cause = err
			}
		}
		if cause != nil && ctx.Err() == nil {
			return fmt.Errorf("serve gRPC: %w", cause)
		}
		return nil
	})
}

func stopGracefully(server *grpc.Server, grace time.Duration) {
	late := time.AfterFunc(grace, server.Stop)
	server.GracefulStop()
	late.Stop()
}

// serveHTTP serves one handler on a listener that is open already.
func serveHTTP(name string, handler http.Handler, grace time.Duration, l net.Listener) *part {
	return newPart(name, func(ctx context.Context, ready func()) error {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(l) }()
		ready()
		select {
		case err := <-failed:
			return fmt.Errorf("serve HTTP: %w", err)
		case <-ctx.Done():
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(end)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			return fmt.Errorf("stop HTTP: %w", err)
		}
		return nil
	})
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}
