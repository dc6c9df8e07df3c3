package replicas

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balancer forwards connections to backends that are up, one after the other. Connections to one that goes down end.
type balancer struct {
	listener net.Listener
	// sees gets the first line of every request before it is forwarded; nil if nobody looks.
	sees atomic.Pointer[func(line string)]

	mu    sync.Mutex
	up    []string
	next  int
	conns map[net.Conn]string // of clients, by backend
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, conns: map[net.Conn]string{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.forward(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // nobody is left
		for _, a := range slices.Clone(b.up) {
			b.set(a, false)
		}
		serving.Wait()
	})
	return b
}

func (b *balancer) address() string { return b.listener.Addr().String() }

func (b *balancer) set(backend string, up bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.up = slices.DeleteFunc(b.up, func(a string) bool { return a == backend })
	if up {
		b.up = append(b.up, backend)
		return
	}
	for c, at := range b.conns {
		if at == backend {
			_ = c.Close() // as the death of the backend would
		}
	}
}

func (b *balancer) pick(c net.Conn) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.up) == 0 {
		return "", false
	}
	b.next++
	backend := b.up[b.next%len(b.up)]
	b.conns[c] = backend
	return backend, true
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	backend, ok := b.pick(client)
	if !ok {
		return
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, client)
	}()
	var d net.Dialer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	server, err := d.DialContext(ctx, "tcp", backend)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(server, watched{client, b}) // its end is the end of the connection
		_ = server.Close()
	})
	_, _ = io.Copy(client, server) // likewise
	_ = client.Close()
	both.Wait()
}

// watched is a client's connection whose requests the balancer sees. A request begins with what is read at once: the
// clients here send none before they have the answer to the last, and none in pieces.
type watched struct {
	net.Conn
	*balancer
}

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if sees := w.sees.Load(); sees != nil && n > 0 {
		line, _, _ := bytes.Cut(p[:n], []byte("\r\n"))
		(*sees)(string(line))
	}
	return n, err
}
