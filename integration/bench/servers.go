package bench

import (
	"context"
	"net"
	"net/http"
	"time"
)

// serveEmpty is an HTTP server of the kind that the catalog has, with a handler that does nothing.
func serveEmpty(ctx context.Context, r *role) (measured, error) {
	return serve(ctx, r.Listen, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
}

// serveFiles serves a folder.
func serveFiles(ctx context.Context, r *role) (measured, error) {
	return serve(ctx, r.Listen, http.FileServer(http.Dir(r.Dir)))
}

func serve(ctx context.Context, address string, h http.Handler) (measured, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return measured{}, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.Serve(l)
	if ctx.Err() != nil {
		err = nil
	}
	return measured{}, err
}
